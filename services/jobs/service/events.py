"""Server-sent events: the audit trail and logs as they come, going on from the id that a client saw last."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

from services.jobs.ledger.ledger import Ledger, UnknownJobError
from services.jobs.records import attempt_of
from services.jobs.service.schemas import ChangeView
from services.jobs.states import ENDED

PAUSE = 0.3  # seconds between two looks
BEAT = 15.0  # seconds of silence until a comment says that the connection lives
BLOCK = 65_536  # bytes of a log in one event


async def changes(ledger: Ledger, after: int, job: str | None, owner: str | None) -> AsyncIterator[str]:
    """A change of the audit trail an event, its number the id. Of one job: until it has ended."""
    seen, looked, quiet = after, -1, 0.0
    while True:
        newest = ledger.newest
        found = await asyncio.to_thread(ledger.changes, seen, job, owner, 500) if newest > looked else []
        if found:
            seen = found[-1].id
            yield "".join(
                event(str(one.id), "change", ChangeView.model_validate(one).model_dump_json()) for one in found
            )
        else:
            # a job ends by a change: while there is none, nobody need be asked
            if job is not None and newest > looked and await _ended(ledger, job):
                yield event(str(seen), "end", "{}")
                return
            looked = newest
            quiet += PAUSE
            if quiet >= BEAT:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(PAUSE)


async def logs(ledger: Ledger, home: Path, job: str, start: tuple[int, int]) -> AsyncIterator[str]:
    """What the attempts of a job write, in blocks of base64 (a block may end within a letter); the id of an event is
    ATTEMPT:BYTES, from where a client goes on. Ends with the job."""
    number, offset = start
    looked, quiet = -1, 0.0
    current, ended = 0, False
    while True:
        newest = ledger.newest
        if newest > looked:
            try:
                found = await asyncio.to_thread(ledger.job, job)
            except UnknownJobError:
                return
            # before the log is read: what comes last is not missed
            current, ended, looked = found.attempt, found.state in ENDED, newest
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
