"""The access log: a line of JSON for each change that somebody asks for, and for each refusal.

It says who asked, by which token, from where, what was answered, and what changed; no bodies, no queries of addresses
and no tokens. A line is written before its answer is sent. Requests that only ask, such as plans, have none.
"""

import json
import logging
import re
import time
from pathlib import Path

from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.services.http.rates import Rate
from dragoman.services.jobs.ledger.asked import ASKED, RequestFacts

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
QUESTIONS = ("/v1/plans", "/submit")  # forms that mostly ask
REFUSED = (401, 403)
FAILED, LEFT = 500, 499  # an error of ours; the client left before the answer
STRANGERS = 1.0, 60  # lines a second for one address of unknown people, after the first 60
SECRET = re.compile(r"dgm_[\w-]+")  # a token that somebody put into an address
LONGEST = 2000  # characters of a text
logger = logging.getLogger(__name__)


class AccessLog:
    """ASGI middleware, the outermost. Another program may move or cut the file: each line opens it anew."""

    def __init__(self, app: ASGIApp, path: Path) -> None:
        self.app, self.path = app, path
        self._strangers = Rate(*STRANGERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        facts, status = RequestFacts(), LEFT

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                await self._enter(scope, facts, status)
            await send(message)

        token = ASKED.set(facts)
        try:
            await self.app(scope, receive, answer)
        except Exception:
            status = FAILED
            await self._enter(scope, facts, status)
            raise
        finally:
            ASKED.reset(token)
        if status == LEFT:
            await self._enter(scope, facts, status)

    async def _enter(self, scope: Scope, facts: RequestFacts, status: int) -> None:
        """Writes a line if the request changed something or was refused."""
        changed = scope["method"] in CHANGING and (scope["path"] not in QUESTIONS or 300 <= status < 400)
        if status not in REFUSED and not facts.changes and not (facts.person and changed):
            return
        address = (scope.get("client") or ("",))[0]
        if not facts.person and self._strangers.take(address):
            return
        row = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "person": facts.person,
            "token": facts.token,
            "address": address,
            "method": scope["method"],
            "path": scope["path"][:LONGEST],
            "status": status,
            "detail": facts.detail[:LONGEST],
        }
        await run_in_threadpool(self._write, SECRET.sub("dgm_...", json.dumps(row)))

    def _write(self, line: str) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as problem:  # the change is made: its answer does not fail for this
            logger.error("%s: %s; the line is %s", self.path, problem, line)
