"""The wrapper around all routes of a service.

It reads the body within a limit and a deadline, finds the route, admits who asks, answers errors in the form of the
service, stops the work for a client that has left, counts and logs. FastAPI describes the routes; it answers only those
whose parameters it reads, for its own way to a route costs more than all the rest of a request.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Message, Receive, Scope, Send

from dragoman.services.http.access_log import log_failure, log_request
from dragoman.services.http.connections import LEAVING
from dragoman.services.telemetry.telemetry import Telemetry

Admit: TypeAlias = Callable[[Scope, Receive], Awaitable[Request]]
METRICS = "/metrics"  # is not measured itself
DIRECT = "dragoman.route"  # in the scope: the path of a route that FastAPI has not looked for
BODY = "dragoman.body"  # in the scope: the body
HEADERS = "dragoman.headers"  # in the scope: the headers by name
REFUSED = "dragoman.refused"  # in the scope: why a key refused the request, where the status does not tell
DAY = 86_400  # seconds that a browser remembers which pages may ask
INTERNAL = "Internal error"
CLOSING = {"Connection": "close"}  # the rest of a refused body is not read
LEFT = 0  # the status of a request whose client has left


@dataclass(frozen=True)
class Rules:
    """The limits and forms of one service's requests."""

    limit: int  # bytes of a body
    patience: float  # seconds for a body to arrive
    refuse: Callable[[Request, Exception], Response | None]  # the answer to an error; None: nobody expects it
    larger: Mapping[str, int] = field(default_factory=dict)  # other limits, by the beginning of the path
    admit: Mapping[type[Request], Admit] = field(default_factory=dict)  # by the kind of request that a handler takes
    count: Callable[[int, str | None], None] = lambda _status, _reason: None  # gets every refusal
    uncounted: frozenset[str] = frozenset({METRICS})  # paths whose errors are answers
    head: frozenset[str] = frozenset()  # paths that answer HEAD as GET: they cost nothing and delete nothing
    origins: Sequence[str] = ()  # web pages' addresses that may ask
    exposed: Sequence[str] = ()  # headers that they may read
    log: bool = False  # log one line per request


@dataclass(frozen=True)
class Direct:
    """A route whose handler takes the request itself."""

    handler: Callable[[Request], Awaitable[Response]]
    path: str
    admit: Admit | None  # None: anybody may ask


class Wrapper:
    """The ASGI application of a service: `app` with its rules."""

    def __init__(self, app: FastAPI, rules: Rules, telemetry: Telemetry) -> None:
        self.app, self.rules, self.telemetry = app, rules, telemetry
        self._plain: dict[tuple[str, str], Direct] = {}  # by method and path
        self._others: list[tuple[APIRoute, Direct]] = []  # with parameters in the path
        app.add_exception_handler(Exception, self._fail)
        self._mounts = [route.path for route in app.routes if isinstance(route, Mount)]
        for route in app.routes:
            if isinstance(route, APIRoute) and (direct := self._direct(route)):
                for method in route.methods or () if not route.param_convertors else ():
                    self._plain[method, route.path] = direct
                if route.param_convertors:
                    self._others.append((route, direct))
        self._vary = (b"vary", b"Origin") if rules.origins else None
        self._cors: CORSMiddleware | None = None
        if rules.origins:
            self._cors = CORSMiddleware(
                self._answer,
                allow_origins=rules.origins,
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=rules.exposed,
                max_age=DAY,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method, path, status = scope["method"], scope["path"], LEFT
        scheme, version = scope.get("scheme", "http"), scope.get("http_version", "1.1")
        count = None if path in self.rules.uncounted else self.rules.count
        metrics = None if path == METRICS else self.telemetry.http
        headers = scope[HEADERS] = dict(scope["headers"])
        crossing = self._cors is not None and b"origin" in headers

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if count is not None and status >= 400:
                    count(status, scope.get(REFUSED))
                if self._vary and not crossing:
                    message["headers"].append(self._vary)
            await send(message)

        began = time.perf_counter()
        if metrics is not None:
            metrics.begin(scheme, method)
        try:
            if self.telemetry.tracers is not None:
                with self.telemetry.request_span(
                    method, scheme, headers.get(b"traceparent", b"").decode("latin-1")
                ) as span:
                    await self._while_there(scope, receive, sent, crossing)
                    self.telemetry.describe(span, method, self._route(scope), status)
            else:
                await self._while_there(scope, receive, sent, crossing)
        except Exception as problem:  # the last handler: the server would log the message too
            log_failure(scope, self._route(scope), problem)
        finally:
            seconds = time.perf_counter() - began
            route = self._route(scope)
            if metrics is not None:
                metrics.end(scheme, method, version, route, status, seconds)
            if self.rules.log:
                log_request({**scope, "method": method}, route, status, seconds)

    async def _while_there(self, scope: Scope, receive: Receive, send: Send, crossing: bool) -> None:
        """Answers; stops once the client has closed the connection."""
        task = asyncio.current_task()
        assert task is not None
        left = late = False

        def leave() -> None:
            nonlocal left
            left = True
            task.cancel()

        def expire() -> None:
            nonlocal late
            late = True
            task.cancel()

        extension = scope.get("extensions", {}).get(LEAVING)  # only our own server has it
        watching: asyncio.Future[Message] | None = None
        deadline = asyncio.get_running_loop().call_later(self.rules.patience, expire)
        try:
            if extension is not None:
                extension["call"] = leave
            body = await _read_body(receive, self._limit(scope["path"]))
            deadline.cancel()
            if body is None:
                return
            if extension is None:
                watching = asyncio.ensure_future(receive())  # after the body only the disconnect message comes
                watching.add_done_callback(lambda watched: None if watched.cancelled() else leave())
            scope[BODY] = body
            await (self._cors if crossing and self._cors else self._answer)(scope, _replay(body), send)
        except HTTPException as problem:  # of the body; those of handlers are answered
            await self._refuse(Request(scope), problem)(scope, receive, send)
        except asyncio.CancelledError:
            if not (left or late) or task.uncancel():
                raise
            if late:
                message = f"Invalid request: the body did not come in {self.rules.patience:g} s"
                await self._refuse(Request(scope), HTTPException(408, message, CLOSING))(scope, receive, send)
        finally:
            deadline.cancel()
            if extension is not None:
                extension.pop("call", None)
            if watching is not None:
                watching.cancel()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD" and scope["path"] in self.rules.head:
            scope["method"], send = "GET", _without_body(send)
        direct = self._find(scope)
        if direct is None:
            await self.app(scope, receive, send)
            return
        try:
            request = await (direct.admit or _let_in)(scope, receive)
            response = await direct.handler(request)
        except Exception as problem:
            response = self._refuse(Request(scope), problem)
        await response(scope, receive, send)

    async def _fail(self, request: Request, _problem: Exception) -> Response:
        """Answers an error in a route of FastAPI, which raises it again to be logged."""
        return self._refuse(request, HTTPException(500, INTERNAL))

    def _refuse(self, request: Request, problem: Exception) -> Response:
        """Returns the answer to an error; logs one that nobody expects."""
        response = self.rules.refuse(request, problem)
        if response is None:
            log_failure(request.scope, self._route(request.scope), problem)
            response = self.rules.refuse(request, HTTPException(500, INTERNAL))
        assert response is not None, "HTTP's own errors have an answer"
        return response

    def _limit(self, path: str) -> int:
        for start, limit in self.rules.larger.items():
            if path.startswith(start):
                return limit
        return self.rules.limit

    def _direct(self, route: APIRoute) -> Direct | None:
        """Returns a route that needs nothing of FastAPI; None if FastAPI reads its parameters."""
        parameters = list(inspect.signature(route.endpoint).parameters.values())
        kinds = [parameter.annotation for parameter in parameters if inspect.isclass(parameter.annotation)]
        if len(parameters) != 1 or len(kinds) != 1 or not issubclass(kinds[0], Request) or route.dependencies:
            return None
        return Direct(route.endpoint, route.path, self.rules.admit.get(kinds[0]))

    def _find(self, scope: Scope) -> Direct | None:
        """Returns the route of a request, whose parameters are put into the scope; None if FastAPI must look."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        handler = self._plain.get((scope["method"], path))
        if handler is None:
            for route, direct in self._others:
                match = route.path_regex.match(path) if scope["method"] in (route.methods or ()) else None
                if match:
                    values = match.groupdict().items()
                    scope["path_params"] = {name: route.param_convertors[name].convert(text) for name, text in values}
                    handler = direct
                    break
        if handler is not None:
            scope["app"], scope[DIRECT] = self.app, handler.path
        return handler

    def _route(self, scope: Scope) -> str:
        """Returns the path of the request's route, with names for its parameters; empty if there is no such route."""
        if DIRECT in scope:
            return str(scope[DIRECT])
        if "route" in scope:
            return str(getattr(scope["route"], "path", ""))
        return next((f"{mount}/{{path}}" for mount in self._mounts if scope["path"].startswith(f"{mount}/")), "")


async def _read_body(receive: Receive, limit: int) -> bytes | None:
    """Returns the whole body; None if the client left before its end.

    Without a limit a body of any size would fill memory. Raises HTTPException: 413.
    """
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise HTTPException(413, f"Invalid request: the body exceeds {limit} bytes", CLOSING)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes) -> Receive:
    """Returns a `receive` that gives the body once; a client that leaves cancels the request."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else await asyncio.Future()

    return receive


async def _let_in(scope: Scope, receive: Receive) -> Request:
    return Request(scope, receive)


def _without_body(send: Send) -> Send:
    async def sent(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return sent
