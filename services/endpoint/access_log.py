"""What is written down of a request: never a word of what its user sent, nor a key.

The route stands for the path, which may hold a word, and the query string is left out. Of an error that nobody foresaw
the trace is kept without its message, which may quote the request.
"""

import ipaddress
import logging
import time
import traceback
from http import HTTPMethod

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.endpoint.answer import refusal

logger = logging.getLogger(__name__)


class AccessLog:
    """ASGI middleware: a line a request where `lines` is set, and a 500 with its trace in the log for what failed."""

    def __init__(self, app: ASGIApp, lines: bool) -> None:
        self.app = app
        self.lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0  # nothing was answered: the client has left

        async def sent(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except Exception as problem:  # the last line of defence: the server would log the message too
            frames = "".join(traceback.format_tb(problem.__traceback__))
            logger.error("%s failed: %s\n%s", _describe_request(scope), type(problem).__name__, frames.rstrip())
            if not status:
                await refusal(500, "Internal error")(scope, receive, sent)
        if self.lines:
            logger.info(
                "%s %s %d %.0f ms",
                _client(scope),
                _describe_request(scope),
                status,
                1000 * (time.perf_counter() - began),
            )


def _client(scope: Scope) -> str:
    """The client's IP address. Behind a proxy of this machine it is what a header says, which anybody can write."""
    try:
        return str(ipaddress.ip_address((scope.get("client") or ("",))[0].partition("%")[0]))
    except ValueError:
        return "-"


def _describe_request(scope: Scope) -> str:
    """Method and route, as far as they are ours: POST /translate, GET /vectors/{word:path}."""
    method = scope["method"] if scope["method"] in HTTPMethod.__members__ else "?"
    return f"{method} {getattr(scope.get('route'), 'path', '(no such route)')}"
