"""The access log, which never holds a user's words or keys.

It logs the route instead of the path, which may contain a word, and leaves out the query string. For an unexpected
error it logs the traceback without the message, which may quote the request.
"""

import ipaddress
import logging
import time
import traceback
from http import HTTPMethod

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.services.endpoint.answer import refusal

logger = logging.getLogger(__name__)


class AccessLog:
    """ASGI middleware: logs one line per request if `lines` is set; answers errors with 500 and logs the traceback."""

    def __init__(self, app: ASGIApp, lines: bool) -> None:
        self.app = app
        self.lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0  # no answer: the client has left

        async def sent(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except Exception as problem:  # the last handler: the server would log the message too
            log_failure(scope, problem)
            if not status:
                await refusal(500, "Internal error", path=scope["path"])(scope, receive, sent)
        if self.lines:
            log_request(scope, status, time.perf_counter() - began)


def log_request(scope: Scope, status: int, seconds: float) -> None:
    """Logs the line of a request; status 0: the client has left."""
    logger.info("%s %s %d %.0f ms", _client(scope), _describe_request(scope), status, 1000 * seconds)


def log_failure(scope: Scope, problem: Exception) -> None:
    """Logs an unexpected error without its message."""
    frames = "".join(traceback.format_tb(problem.__traceback__))
    logger.error("%s failed: %s\n%s", _describe_request(scope), type(problem).__name__, frames.rstrip())


def _client(scope: Scope) -> str:
    """Returns the client's IP address. Behind a local proxy it comes from a header, which anybody can write."""
    try:
        return str(ipaddress.ip_address((scope.get("client") or ("",))[0].partition("%")[0]))
    except ValueError:
        return "-"


def _describe_request(scope: Scope) -> str:
    """Returns method and route, as far as they are known: POST /translate, GET /vectors/{word:path}."""
    method = scope["method"] if scope["method"] in HTTPMethod.__members__ else "?"
    return f"{method} {getattr(scope.get('route'), 'path', '(no such route)')}"
