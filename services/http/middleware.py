"""The middleware around all routes: bounds what clients send and hold open, stops their work once they leave, measures
and logs."""

import asyncio
import time
from collections.abc import Callable, Mapping

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.services.http.access_log import log_failure, log_request
from dragoman.services.http.addresses import names_this_machine
from dragoman.services.http.answers import refusal
from dragoman.services.http.connections import Clients
from dragoman.services.telemetry import Telemetry

METRICS = "/metrics"  # is not measured itself
INTERNAL = "Internal error"
TOO_MANY = "Too many requests of this address are at work"
PRIVATE = "Without keys this service answers to the names of this machine alone, such as localhost"
CLOSING = {"Connection": "close"}  # the rest of a refused body is not read
LEFT = 0  # the status of a request whose client has left


class Guard:
    """ASGI middleware of one service.

    `limit`: bytes of a body, `larger`: other limits by path, `seconds` for a body to arrive; `clients` bounds the
    requests of each; `fail` makes the answer to an unexpected error, which is logged without its message; `log`: one
    line per request. While `private`, only a Host of this machine is answered: a page of another site could let its own
    name mean this machine (DNS rebinding).
    """

    def __init__(
        self,
        app: ASGIApp,
        telemetry: Telemetry,
        limit: int,
        seconds: float,
        clients: Clients,
        private: Callable[[], bool],
        fail: Callable[[Request], Response],
        larger: Mapping[str, int] | None = None,
        log: bool = False,
    ) -> None:
        self.app, self.telemetry, self.fail, self.log = app, telemetry, fail, log
        self.limit, self.larger, self.seconds = limit, larger or {}, seconds
        self.clients, self.private = clients, private

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method, status = scope["method"], LEFT
        scheme, version = scope.get("scheme", "http"), scope.get("http_version", "1.1")

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        measured = scope["path"] != METRICS
        address = (scope.get("client") or ("",))[0]
        began = time.perf_counter()
        if measured:
            self.telemetry.http.begin(scheme, method)
        try:
            if not self.clients.enter(address):
                await refusal(429, TOO_MANY, CLOSING | {"Retry-After": "1"})(scope, receive, sent)
            elif self.private() and not names_this_machine(Headers(scope=scope).get("host", "")):
                await refusal(403, PRIVATE, CLOSING)(scope, receive, sent)
            else:
                await self._answer(scope, receive, sent)
        except ClientDisconnect:  # in the middle of its body: nobody waits for an answer
            pass
        except Exception as problem:  # the server would log its message, which may quote the request
            log_failure(scope, route_of(scope), problem)
            if status == LEFT:
                await self.fail(Request(scope))(scope, receive, sent)
        finally:
            self.clients.leave(address)
            seconds = time.perf_counter() - began
            if measured:
                self.telemetry.http.end(scheme, method, version, route_of(scope), status, seconds)
            if self.log:
                log_request(scope, route_of(scope), status, seconds)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers; stops once the client has closed the connection."""
        body = Body(receive, self.larger.get(scope["path"], self.limit), self.seconds)
        try:
            await self.app(scope, body.receive, send)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not body.left or task is None or task.uncancel():
                raise
        finally:
            body.close()


class Body:
    """A request's body within a limit and a deadline; once it is whole, the task ends when the client leaves."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self._receive, self.limit, self.seconds = receive, limit, seconds
        self._end = asyncio.get_running_loop().time() + seconds
        self._task = asyncio.current_task()
        self._size = 0
        self._watch: asyncio.Future[Message] | None = None
        self.left = False

    async def receive(self) -> Message:
        """Returns the next message. Raises HTTPException: 408 it comes too late, 413 the body is too large."""
        if self._watch is not None:
            return await asyncio.shield(self._watch)
        try:
            async with asyncio.timeout_at(self._end):
                message = await self._receive()
        except TimeoutError:
            why = f"Invalid request: the body did not come in {self.seconds:g} s"
            raise HTTPException(408, why, CLOSING) from None
        self._size += len(message.get("body", b""))
        if self._size > self.limit:
            raise HTTPException(413, f"Invalid request: the body exceeds {self.limit} bytes", CLOSING)
        if message["type"] == "http.request" and not message.get("more_body", False):
            self._watch = asyncio.ensure_future(self._receive())  # only the disconnection comes now
            self._watch.add_done_callback(self._leave)
        return message

    def close(self) -> None:
        """Ends the watch for the disconnection."""
        if self._watch is not None:
            self._watch.cancel()

    def _leave(self, watch: "asyncio.Future[Message]") -> None:
        if not watch.cancelled() and self._task is not None:
            self.left = True
            self._task.cancel()


def route_of(scope: Scope) -> str:
    """Returns the path of the request's route, with names for its parameters; empty if there is no such route."""
    return str(getattr(scope.get("route"), "path", ""))
