"""A page's only stream: its changed parts, and a job's new output, from where the browser left off.

An event's id is CHANGE or CHANGE:ATTEMPT:BYTES; a returning browser sends it as Last-Event-ID.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from fastapi import Request
from fastapi.responses import StreamingResponse

from dragoman.services.jobs.http.streams import BLOCK, Heartbeat, LogReader, event, while_admitted
from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.pages.site import PageContext, Visitor, part
from dragoman.services.jobs.service.logs import cut
from dragoman.services.jobs.states import ENDED

PACE = 2.0  # seconds between two checks of curves and forecasts, which change without the ledger
RETRY = "retry: 1500\n\n"  # milliseconds before a browser reconnects
Render = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class Place:
    """A browser's position in the log."""

    attempt: int = 1
    offset: int = 0


def last_place(request: Request, after: str) -> Place:
    """Reads the position from the id of the browser's last event, or from the page itself."""
    numbers = (request.headers.get("last-event-id") or after).split(":")[1:]
    if len(numbers) == 2 and all(number.isdecimal() and len(number) < 16 for number in numbers):
        return Place(max(1, int(numbers[0])), int(numbers[1]))
    return Place()


def answer(site: PageContext, visitor: Visitor, source: AsyncGenerator[str]) -> StreamingResponse:
    """Returns the stream as an answer that proxies must not buffer; it ends when its reader may read no more."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    admitted = while_admitted(source, site.sessions.access, visitor.person)
    return StreamingResponse(admitted, media_type="text/event-stream", headers=headers)


async def parts(newest: Callable[[], int], render: Render) -> AsyncGenerator[str]:
    """Yields the changed parts of a page without a log."""
    yield RETRY
    renderer, heartbeat = _Renderer(render), Heartbeat()
    while True:
        if new_parts := await renderer.fresh(newest()):
            heartbeat.told()
            yield event(str(newest()), "parts", new_parts)
        if beat := await heartbeat.rest():
            yield beat


async def job(
    ledger: Ledger, newest: Callable[[], int], home: Path, name: str, place: Place, render: Render
) -> AsyncGenerator[str]:
    """Yields the changed parts and the log of a job's page, until the job has ended."""
    yield RETRY
    renderer, heartbeat = _Renderer(render), Heartbeat()
    reader = LogReader(home, name, place.attempt, place.offset, _lines)
    while True:
        change = newest()
        try:
            current = await asyncio.to_thread(ledger.job, name)
            new_parts = await renderer.fresh(change)
        except UnknownJobError:
            yield event(str(change), "end", json.dumps({"gone": True}))
            return
        if new_parts:
            heartbeat.told()
            yield event(f"{change}:{reader.place}", "parts", new_parts)
        ended = current.state in ENDED
        piece = await reader.piece(current.attempt, ended)
        if piece is not None:
            heartbeat.told()
            yield event(f"{change}:{reader.place}", "log", json.dumps(asdict(piece)))
        elif ended:
            if final := await renderer.fresh(-1):  # the last changes of curves
                yield event(f"{change}:{reader.place}", "parts", final)
            yield event(f"{change}:{reader.place}", "end", "{}")
            return
        elif beat := await heartbeat.rest():
            yield beat


def _lines(block: bytes, start: int, whole: bool) -> tuple[str, int]:
    if not whole and b"\n" not in block and len(block) < BLOCK:
        return "", start  # an unfinished line
    return cut(block, start, whole)


class _Renderer:
    """Renders when something may have changed, and returns only the changed parts."""

    def __init__(self, render: Render) -> None:
        self.render = render
        self._seen: int | None = None
        self._at = 0.0
        self._marks: dict[str, str] = {}

    async def fresh(self, change: int) -> str:
        """Returns JSON of the changed parts; empty if there are none."""
        if change == self._seen and time.monotonic() - self._at < PACE:
            return ""
        self._seen = change
        rendered = [part(name, text) for name, text in (await asyncio.to_thread(self.render)).items()]
        self._at = time.monotonic()
        new = [item for item in rendered if self._marks.get(item["id"]) != item["mark"]]
        self._marks |= {item["id"]: item["mark"] for item in new}
        return json.dumps(new) if new else ""
