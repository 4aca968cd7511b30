"""The common parts of server-sent event streams: an event's form, the heartbeat, and reading a job's logs."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.schemas import ChangeView
from dragoman.services.jobs.states import ENDED

PAUSE = 0.3  # seconds between two checks
BEAT = 15.0  # seconds of silence before a comment shows that the connection is alive
LOOK = 5.0  # seconds after which a stream asks whether its reader's token has expired
BLOCK = 65_536  # bytes of a log in one event
Cut = Callable[[bytes, int, bool], tuple[str, int]]  # block, its start, True if it is the last: text, its end


def event(name: str, kind: str, data: str) -> str:
    """Returns one event in its wire format; `data` is JSON, and so one line."""
    return f"id: {name}\nevent: {kind}\ndata: {data}\n\n"


async def while_admitted(source: AsyncGenerator[str], access: Access, person: Person) -> AsyncIterator[str]:
    """Yields a stream's events until its end, or until its reader's token is revoked or expires."""
    seen, looked = access.ledger.newest, time.monotonic()  # a revocation is a change of the ledger
    coming = asyncio.ensure_future(anext(source, None))
    try:
        while True:
            await asyncio.wait([coming], timeout=PAUSE)
            newest = access.ledger.newest
            if newest != seen or time.monotonic() - looked >= LOOK:
                seen, looked = newest, time.monotonic()
                if not await asyncio.to_thread(access.admits, person):
                    return
            if coming.done():
                if (result := coming.result()) is None:
                    return
                yield result
                coming = asyncio.ensure_future(anext(source, None))
    finally:
        coming.cancel()
        await asyncio.wait([coming])
        await source.aclose()


class Heartbeat:
    """The heartbeat of one stream."""

    def __init__(self) -> None:
        self._quiet = 0.0

    def told(self) -> None:
        """Records that something was sent."""
        self._quiet = 0.0

    async def rest(self) -> str:
        """Waits until the next check; returns the comment that is due then, usually none."""
        await asyncio.sleep(PAUSE)
        self._quiet += PAUSE
        if self._quiet < BEAT:
            return ""
        self._quiet = 0.0
        return ": still here\n\n"


@dataclass(frozen=True)
class Piece:
    """A piece of the log of an attempt, from byte `start` to `end`."""

    attempt: int
    start: int
    end: int
    text: str


@dataclass
class LogReader:
    """A client's position in a job's logs; it moves from one attempt to the next."""

    home: Path
    job: str
    attempt: int
    offset: int
    cut: Cut  # turns a block into text

    @property
    def place(self) -> str:
        """Returns where a client resumes: ATTEMPT:BYTES."""
        return f"{self.attempt}:{self.offset}"

    async def piece(self, newest: int, ended: bool) -> Piece | None:
        """Returns the next piece; None if there is no more yet.

        `newest` is the job's attempt, `ended` whether it has ended: both from before, so that the last output
        is not missed."""
        while True:
            text, end = await asyncio.to_thread(self._read, ended or self.attempt < newest)
            if end > self.offset:
                start, self.offset = self.offset, end
                return Piece(self.attempt, start, end, text)
            if self.attempt >= newest:
                return None
            self.attempt, self.offset = self.attempt + 1, 0

    def _read(self, whole: bool) -> tuple[str, int]:
        block = attempt_of(self.home, self.job, self.attempt).read_log(self.offset, BLOCK)
        return self.cut(block, self.offset, whole and len(block) < BLOCK) if block else ("", self.offset)


async def changes(ledger: Ledger, after: int, job: str | None, person: Person) -> AsyncGenerator[str]:
    """Yields the changes that `person` may see, with their number as id; for one job, until it has ended."""
    seen, looked, heartbeat = after, -1, Heartbeat()
    owner = None if person.sees_all else person.owner
    projects = [name for name, _ in person.projects]
    while True:
        newest = ledger.newest
        rows = await asyncio.to_thread(ledger.changes, seen, job, owner, 500, projects) if newest > looked else []
        if rows:
            heartbeat.told()
            seen = rows[-1].id
            yield "".join(
                event(str(change.id), "change", ChangeView.shown(change, person).model_dump_json()) for change in rows
            )
            continue
        # a job ends by a change, so without changes its state need not be read
        if job is not None and newest > looked and await _ended(ledger, job):
            yield event(str(seen), "end", "{}")
            return
        looked = newest
        if beat := await heartbeat.rest():
            yield beat


async def logs(ledger: Ledger, home: Path, job: str, start: tuple[int, int]) -> AsyncGenerator[str]:
    """Yields the output of a job's attempts in blocks of base64 (a block may end within a letter).

    An event's id is ATTEMPT:BYTES, from where a client resumes. Ends with the job."""
    reader, heartbeat = LogReader(home, job, max(start[0], 1), start[1], _encode), Heartbeat()
    looked, current, ended = -1, 0, False
    while True:
        newest = ledger.newest
        if newest > looked:
            try:
                row = await asyncio.to_thread(ledger.job, job)
            except UnknownJobError:
                return
            current, ended, looked = row.attempt, row.state in ENDED, newest
        piece = await reader.piece(current, ended)
        if piece is not None:
            heartbeat.told()
            yield event(reader.place, "log", json.dumps({"attempt": piece.attempt, "text": piece.text}))
        elif ended:
            yield event(reader.place, "end", "{}")
            return
        elif beat := await heartbeat.rest():
            yield beat


def _encode(block: bytes, start: int, _: bool) -> tuple[str, int]:
    return base64.b64encode(block).decode(), start + len(block)


async def _ended(ledger: Ledger, job: str) -> bool:
    state = (await asyncio.to_thread(ledger.states, [job])).get(job)
    return state is None or state in ENDED
