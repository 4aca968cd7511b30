"""Limits the size and the duration of requests' bodies, and cancels a request when its client leaves.

Without this a body of any size would fill memory, a client that sends one byte per minute would hold a connection, and
requests would be processed long after their clients have gone.
"""

import asyncio
import contextlib
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.services.endpoint.answer import refusal


class BodyLimit:
    """ASGI middleware: 413 for a body of more than `limit` bytes, 408 for one that takes over `patience` seconds.

    `others` has other limits by the beginning of the path.

    The application gets the body in one piece, and is cancelled when the client closes the connection.
    """

    def __init__(self, app: ASGIApp, limit: int, patience: float, others: Mapping[str, int] | None = None) -> None:
        self.app = app
        self.limit = limit
        self.others = others or {}
        self.patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        limit = next((most for start, most in self.others.items() if path.startswith(start)), self.limit)
        try:
            async with asyncio.timeout(self.patience):
                body = await read_body(receive, limit)
        except (TimeoutError, TooLongError) as problem:
            await refuse_body(problem, limit, self.patience, path)(scope, receive, send)
        else:
            if body is not None:
                await self._answer(body, scope, receive, send)

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(receive())  # after the body only the disconnect message comes
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await asyncio.shield(leaving)

        answering = asyncio.ensure_future(self.app(scope, replay, send))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            answering.cancel()  # nobody waits for its answer any more
        with contextlib.suppress(asyncio.CancelledError):
            await answering


class TooLongError(Exception):
    """A body exceeds the limit."""


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Returns the whole body; None if the client left before its end.

    Raises:
        TooLongError: it exceeds the limit, whatever the length header said.
    """
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise TooLongError
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def refuse_body(problem: TimeoutError | TooLongError, limit: int, patience: float, path: str = "") -> Response:
    """Returns the answer to a body that did not come in time, or is too long; the rest of it is not read."""
    closing = {"Connection": "close"}
    if isinstance(problem, TooLongError):
        return refusal(413, f"Invalid request: the body exceeds {limit} bytes", closing, path)
    return refusal(408, f"Invalid request: the body did not come in {patience:g} s", closing, path)
