"""The short way to a route: the busiest ones are answered in front of FastAPI and its middleware.

FastAPI's telemetry, routing and middleware cost more than all the rest of a request. What they do is done here in one
place: the limits of the body, the cancellation when the client leaves, the count of refusals, the access log, the HTTP
metrics. The route stays in FastAPI, which describes it, and answers what needs more: requests of pages of other origins
(CORS), and all requests where spans are sent to a collector.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message, Receive, Scope, Send

from dragoman.services.endpoint.access_log import log_failure, log_request
from dragoman.services.endpoint.answer import refusal
from dragoman.services.endpoint.body_limit import TooLongError, read_body, refuse_body
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.keys import REFUSED
from dragoman.services.http.connections import LEAVING
from dragoman.services.telemetry.http_metrics import HttpMetrics

Handler = Callable[[Request], Awaitable[Response]]


class LeanRoutes:
    """ASGI application: answers POST requests to `paths` by the functions that `app` has for them; passes on others."""

    def __init__(self, app: FastAPI, paths: Sequence[str], endpoint: Endpoint) -> None:
        self.app = app
        self.limit, self.patience = endpoint.limits.body, endpoint.receive_timeout
        self.log = endpoint.access_log
        self.varies = bool(endpoint.origins)  # as the middleware that answers pages of other origins says
        self.metrics, self.refused = HttpMetrics(endpoint.metrics.telemetry), endpoint.metrics.refuse
        self.routes = {
            route.path: route
            for route in app.routes
            if isinstance(route, APIRoute) and route.path in paths and "POST" in (route.methods or ())
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        extension = scope.get("extensions", {}).get(LEAVING)  # only our own server has it
        if route is None or extension is None or any(name == b"origin" for name, _ in scope["headers"]):
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        scope["app"], scope["route"] = self.app, route
        self.metrics.begin(scope, route.path)
        REFUSED.set(None)
        status = 0  # no answer: the client has left
        try:
            response = await self._answer_while_there(route.endpoint, scope, receive, extension)
            if response is not None:
                status = response.status_code
                self.refused(status, REFUSED.get())
                if self.varies:
                    response.headers.add_vary_header("Origin")
                await response(scope, receive, send)
        finally:
            seconds = time.perf_counter() - began
            self.metrics.end(scope, route.path, status, seconds)
            if self.log:
                log_request(scope, status, seconds)

    async def _answer_while_there(
        self, handler: Handler, scope: Scope, receive: Receive, extension: dict[str, Any]
    ) -> Response | None:
        """Returns the response; None if the client leaves before it is there."""
        task = asyncio.current_task()
        assert task is not None
        left = False

        def leave() -> None:
            nonlocal left
            left = True
            task.cancel()

        extension["call"] = leave
        try:
            return await self._answer(handler, scope, receive)
        except asyncio.CancelledError:
            if left and not task.uncancel():
                return None
            raise
        finally:
            extension.pop("call", None)

    async def _answer(self, handler: Handler, scope: Scope, receive: Receive) -> Response | None:
        try:
            async with asyncio.timeout(self.patience):
                body = await read_body(receive, self.limit)
        except (TimeoutError, TooLongError) as problem:
            return refuse_body(problem, self.limit, self.patience)
        if body is None:
            return None
        message: Message = {"type": "http.request", "body": body, "more_body": False}

        async def replay() -> Message:
            return message

        request = Request(scope, replay)
        try:
            return await handler(request)
        except Exception as problem:
            refuse = self._refuser(type(problem).__mro__)
            if refuse is None:
                log_failure(scope, problem)
                return refusal(500, "Internal error")
            response: Response = await refuse(request, problem)
            return response

    def _refuser(self, kinds: Iterable[Any]) -> Any:
        """Returns the application's handler of an exception; None if it has none."""
        return next(filter(None, map(self.app.exception_handlers.get, kinds)), None)
