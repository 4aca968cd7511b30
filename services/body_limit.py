"""Refuses a request body over a number of bytes, before it is held in memory."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware: 413 as soon as more than `limit` bytes have come, whatever the length header said."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self.limit:
                raise HTTPException(413, f"Invalid request: the body exceeds {self.limit} bytes")
            return message

        await self.app(scope, counted, send)
