"""The common parts of server-sent event streams: an event's form, the heartbeat, and reading a job's logs."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.records import attempt_of

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
                if (found := coming.result()) is None:
                    return
                yield found
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
