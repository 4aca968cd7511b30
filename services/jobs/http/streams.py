"""Server-sent events: their form, the answer that sends them, a job's logs, and the streams of the REST interface."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from fastapi.responses import StreamingResponse

from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.schemas import ChangeView
from dragoman.services.jobs.states import ENDED

PAUSE = 0.3  # seconds between two checks
BEAT = 15.0  # seconds of silence before a comment shows that the connection is alive
CHECK_EVERY = 5.0  # seconds after which a stream asks whether its reader's token has expired
BLOCK = 65_536  # bytes of a log in one event
Cut = Callable[[bytes, int, bool], tuple[str, int]]  # block, its start, True if it is the last: text, its end


def event(name: str, kind: str, data: str) -> str:
    """Returns one event in its wire format; `data` is JSON, and so one line."""
    return f"id: {name}\nevent: {kind}\ndata: {data}\n\n"


def event_stream(source: AsyncGenerator[str], access: Access, person: Person) -> StreamingResponse:
    """Returns events as an answer that proxies must not buffer; it ends when its reader may read no more."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(while_admitted(source, access, person), media_type="text/event-stream", headers=headers)


async def while_admitted(source: AsyncGenerator[str], access: Access, person: Person) -> AsyncIterator[str]:
    """Yields a stream's events until its end, or until its reader's token is revoked or expires.

    A source yields an empty text where it has nothing new: it is asked again after a pause.
    """
    seen, looked, quiet = access.ledger.newest, time.monotonic(), 0.0  # a revocation is a change of the ledger
    async with contextlib.aclosing(source):
        async for text in source:
            newest = access.ledger.newest
            if newest != seen or time.monotonic() - looked >= CHECK_EVERY:
                seen, looked = newest, time.monotonic()
                if not await asyncio.to_thread(access.admits, person):
                    return
            if text:
                quiet = 0.0
                yield text
                continue
            await asyncio.sleep(PAUSE)
            quiet += PAUSE
            if quiet >= BEAT:
                quiet = 0.0
                yield ": still here\n\n"


def place_in(name: str) -> tuple[int, int] | None:
    """Returns the attempt and the byte with which an event's id ends, ATTEMPT:BYTES; None if it has none."""
    numbers = name.split(":")[-2:]
    if len(numbers) == 2 and all(number.isdecimal() and len(number) < 16 for number in numbers):
        return int(numbers[0]), int(numbers[1])
    return None


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


async def follow(ledger: Ledger, reader: LogReader) -> AsyncGenerator[Piece | None]:
    """Yields the pieces of a job's logs until it has ended; None where there is no new one.

    Raises UnknownJobError: the job was removed.
    """
    looked, current, ended = -1, 0, False
    while True:
        newest = ledger.newest
        if newest > looked:
            row = await asyncio.to_thread(ledger.job, reader.job)
            current, ended, looked = row.attempt, row.state in ENDED, newest
        piece = await reader.piece(current, ended)
        if piece is None and ended:
            return
        yield piece


async def changes(ledger: Ledger, after: int, job: str | None, person: Person) -> AsyncGenerator[str]:
    """Yields the changes that `person` may see, with their number as id; for one job, until it has ended."""
    seen, looked = after, -1
    owners = [] if person.sees_all else person.owners
    while True:
        newest = ledger.newest
        rows = await asyncio.to_thread(ledger.changes, seen, job, owners, 500) if newest > looked else []
        if rows:
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
        yield ""


async def logs(ledger: Ledger, home: Path, job: str, start: tuple[int, int]) -> AsyncGenerator[str]:
    """Yields the output of a job's attempts in blocks of base64 (a block may end within a letter).

    An event's id is ATTEMPT:BYTES, from where a client resumes. Ends with the job."""
    reader = LogReader(home, job, max(start[0], 1), start[1], _encode)
    try:
        async for piece in follow(ledger, reader):
            content = json.dumps({"attempt": piece.attempt, "text": piece.text}) if piece else ""
            yield event(reader.place, "log", content) if piece else ""
    except UnknownJobError:
        return
    yield event(reader.place, "end", "{}")


def _encode(block: bytes, start: int, _: bool) -> tuple[str, int]:
    return base64.b64encode(block).decode(), start + len(block)


async def _ended(ledger: Ledger, job: str) -> bool:
    state = (await asyncio.to_thread(ledger.states, [job])).get(job)
    return state is None or state in ENDED
