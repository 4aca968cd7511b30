"""Server-sent events: the audit trail and logs as they come, from the last id that a client saw."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from pathlib import Path

from dragoman.services.jobs.http.streams import Heartbeat, LogReader, event
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.service.schemas import ChangeView
from dragoman.services.jobs.states import ENDED


async def changes(ledger: Ledger, after: int, job: str | None, person: Person) -> AsyncGenerator[str]:
    """Yields the changes that `person` may see, with their number as id; for one job, until it has ended."""
    seen, looked, heartbeat = after, -1, Heartbeat()
    owner = None if person.sees_all else person.owner
    projects = [name for name, _ in person.projects]
    while True:
        newest = ledger.newest
        found = await asyncio.to_thread(ledger.changes, seen, job, owner, 500, projects) if newest > looked else []
        if found:
            heartbeat.told()
            seen = found[-1].id
            yield "".join(
                event(str(one.id), "change", ChangeView.shown(one, person).model_dump_json()) for one in found
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
                found = await asyncio.to_thread(ledger.job, job)
            except UnknownJobError:
                return
            current, ended, looked = found.attempt, found.state in ENDED, newest
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
