"""Takes a request in whole, within bounds of size and time, and lets go of it as soon as its client has left.

Without this a body of any size would be held in memory, a client that sends a byte a minute would be waited for, and
what a client asked for would be worked off long after it has gone.
"""

import asyncio
import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.endpoint.answer import refusal


class Reception:
    """ASGI middleware: 413 for a body of more than `limit` bytes, 408 for one that takes more than `patience` seconds.

    The application gets the body in one piece, and is cancelled when the client closes the connection.
    """

    def __init__(self, app: ASGIApp, limit: int, patience: float) -> None:
        self.app = app
        self.limit = limit
        self.patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        closing = {"Connection": "close"}  # what is left of the body is not read
        try:
            async with asyncio.timeout(self.patience):
                body = await self._body(receive)
        except TimeoutError:
            message = f"Invalid request: the body did not come in {self.patience:g} s"
            await refusal(408, message, closing)(scope, receive, send)
        except _TooLongError:
            message = f"Invalid request: the body exceeds {self.limit} bytes"
            await refusal(413, message, closing)(scope, receive, send)
        else:
            if body is not None:
                await self._answer(body, scope, receive, send)

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None where the client left before its end.

        Raises:
            _TooLongError: it is over the limit, whatever the length header said.
        """
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self.limit:
                raise _TooLongError
            if not message.get("more_body", False):
                return bytes(body)

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(receive())  # behind the body comes only that the client has left
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await asyncio.shield(leaving)

        answering = asyncio.ensure_future(self.app(scope, replay, send))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            answering.cancel()  # where it is not done, nobody waits for it any more
        with contextlib.suppress(asyncio.CancelledError):
            await answering


class _TooLongError(Exception):
    """A body of more bytes than are taken."""
