"""Server-sent events: the audit trail and logs as they come, going on from the id that a client saw last."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from services.jobs.ledger.ledger import Ledger, UnknownJobError
from services.jobs.records import attempt_of
from services.jobs.service.schemas import ChangeView
from services.jobs.states import ENDED

PAUSE = 0.3  # seconds between two looks
BEAT = 15.0  # seconds of silence until a comment says that the connection lives
BLOCK = 65_536  # bytes of a log in one event


async def changes(
    ledger: Ledger, newest: Callable[[], int], after: int, job: str | None, owner: str | None
) -> AsyncIterator[str]:
    """A change of the audit trail an event, its number the id. Of one job: until it has ended."""
    seen, quiet = after, 0.0
    while True:
        found = await asyncio.to_thread(ledger.changes, seen, job, owner, 500) if newest() > seen else []
        for change in found:
            seen = change.id
            yield event(str(change.id), "change", ChangeView.model_validate(change).model_dump_json())
        if not found:
            if job is not None and await _ended(ledger, job):
                yield event(str(seen), "end", "{}")
                return
            quiet += PAUSE
            if quiet >= BEAT:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(PAUSE)


async def logs(ledger: Ledger, home: Path, job: str, start: tuple[int, int]) -> AsyncIterator[str]:
    """What the attempts of a job write, in blocks of base64 (a block may end within a letter); the id of an event is
    ATTEMPT:BYTES, from where a client goes on. Ends with the job."""
    number, offset = start
    quiet = 0.0
    while True:
        ended = await _ended(ledger, job)  # before the log is read: what comes last is not missed
        try:
            current = (await asyncio.to_thread(ledger.job, job)).attempt
        except UnknownJobError:
            return
        number = max(number, 1)
        block = await asyncio.to_thread(attempt_of(home, job, number).read_log, offset, BLOCK)
        if block:
            offset += len(block)
            data = json.dumps({"attempt": number, "text": base64.b64encode(block).decode()})
            yield event(f"{number}:{offset}", "log", data)
            continue
        if number < current:
            number, offset = number + 1, 0
            continue
        if ended:
            yield event(f"{number}:{offset}", "end", "{}")
            return
        quiet += PAUSE
        if quiet >= BEAT:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(PAUSE)


async def _ended(ledger: Ledger, job: str) -> bool:
    state = (await asyncio.to_thread(ledger.states, [job])).get(job)
    return state is None or state in ENDED


def event(name: str, kind: str, data: str) -> str:
    """One event as it is sent; `data` is JSON, and so one line."""
    return f"id: {name}\nevent: {kind}\ndata: {data}\n\n"
