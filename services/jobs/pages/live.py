"""A page's only stream: its changed parts, and a job's new output, from where the browser left off.

An event's id is CHANGE or CHANGE:ATTEMPT:BYTES; a returning browser sends it as Last-Event-ID.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict
from pathlib import Path

from dragoman.services.jobs.http.streams import BLOCK, LogReader, event, follow
from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.pages.site import Parts, marked
from dragoman.services.jobs.service.logs import cut

PACE = 2.0  # seconds between two checks of curves and waits, which change without the ledger
RETRY = "retry: 1500\n\n"  # milliseconds before a browser reconnects
Render = Callable[[], Parts]


async def parts(ledger: Ledger, render: Render) -> AsyncGenerator[str]:
    """Yields the changed parts of a page without a log."""
    yield RETRY
    renderer = _Renderer(render)
    while True:
        change = ledger.newest
        new_parts = await renderer.fresh(change)
        yield event(str(change), "parts", new_parts) if new_parts else ""


async def job(ledger: Ledger, home: Path, name: str, start: tuple[int, int], render: Render) -> AsyncGenerator[str]:
    """Yields the log from `start` on and the changed parts of a job's page, until the job has ended."""
    yield RETRY
    renderer, change = _Renderer(render), ledger.newest
    reader = LogReader(home, name, max(start[0], 1), start[1], _lines)
    try:
        async for piece in follow(ledger, reader):
            change = ledger.newest
            if piece is not None:
                yield event(f"{change}:{reader.place}", "log", json.dumps(asdict(piece)))
            if new_parts := await renderer.fresh(change):
                yield event(f"{change}:{reader.place}", "parts", new_parts)
            elif piece is None:
                yield ""
        if final := await renderer.fresh(-1):  # the last changes of curves
            yield event(f"{change}:{reader.place}", "parts", final)
    except UnknownJobError:
        yield event(str(change), "end", json.dumps({"gone": True}))
        return
    yield event(f"{change}:{reader.place}", "end", "{}")


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
        rendered = marked(await asyncio.to_thread(self.render)).values()
        self._at = time.monotonic()
        new = [item for item in rendered if self._marks.get(item["id"]) != item["mark"]]
        self._marks |= {item["id"]: item["mark"] for item in new}
        return json.dumps(new) if new else ""
