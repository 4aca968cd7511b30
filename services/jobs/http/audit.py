"""The audit of requests: the one place that enters who asked for a change, and who was refused.

A row is written before its answer is sent. Requests that only ask, such as plans, are entered if they changed something
after all. Of strangers who are refused again and again from one address, not every request gets a row.
"""

import asyncio
import logging
import re

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.services.http.rates import Rate
from dragoman.services.jobs.ledger.asked import ASKED, RequestFacts
from dragoman.services.jobs.ledger.audit import Audit

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
QUESTIONS = re.compile(r"/v1/plans|/submit|/models/[^/]+")  # forms that mostly ask
REFUSED = (401, 403)
FAILED, LEFT = 500, 499  # an error of ours; the client left before the answer
LATE = 100  # tenths of a second that a change may take after its client has left
STRANGERS = 1.0, 60  # rows a second for one address of unknown people, after the first 60
logger = logging.getLogger(__name__)


class Auditing:
    """ASGI middleware, the outermost."""

    def __init__(self, app: ASGIApp, audit: Audit) -> None:
        self.app, self.audit = app, audit
        self._strangers = Rate(*STRANGERS)
        self._unlisted = 0  # refusals since the last row of a stranger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_facts, status = RequestFacts(), LEFT

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                await self._enter(scope, request_facts, status)
            await send(message)

        token = ASKED.set(request_facts)
        try:
            await self.app(scope, receive, answer)
        except Exception:
            status = FAILED
            await self._enter(scope, request_facts, status)
            raise
        finally:
            ASKED.reset(token)
        if status == LEFT:
            await _settled(scope, request_facts)
            await self._enter(scope, request_facts, status)

    async def _enter(self, scope: Scope, request_facts: RequestFacts, status: int) -> None:
        """Enters a row if the request changed something or was refused."""
        if not _matters(scope, request_facts, status):
            return
        address, detail = (scope.get("client") or ("",))[0], request_facts.detail
        if not request_facts.person:
            if self._strangers.take(address):
                self._unlisted += 1
                return
            if self._unlisted:
                detail = f"{detail}; {self._unlisted} refusals before it are not listed".removeprefix("; ")
                self._unlisted = 0
        row = {"person": request_facts.person, "token": request_facts.token, "address": address, "detail": detail}
        try:
            await run_in_threadpool(self.audit.add, status, method=scope["method"], resource=scope["path"], **row)
        except SQLAlchemyError as problem:  # the change is made: its answer does not fail for this
            logger.error("audit: %s %s (%d) has no row: %s", scope["method"], scope["path"], status, problem)


async def _settled(scope: Scope, request_facts: RequestFacts) -> None:
    """Waits until a request whose client has left has changed something: its thread goes on without it."""
    for _ in range(LATE if scope["method"] in CHANGING and request_facts.person else 0):
        if request_facts.changes:
            return
        await asyncio.sleep(0.1)


def _matters(scope: Scope, request_facts: RequestFacts, status: int) -> bool:
    """Returns True for changes that a known person asked for, and for refusals."""
    if status in REFUSED or request_facts.changes:
        return True
    changing = scope["method"] in CHANGING
    return bool(request_facts.person) and changing and (not QUESTIONS.fullmatch(scope["path"]) or 300 <= status < 400)
