"""HEAD, by which monitors and load balancers ask whether a page is there: FastAPI answers it with 405."""

from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Head:
    """ASGI middleware: answers HEAD at `paths` like GET, without the body."""

    def __init__(self, app: ASGIApp, paths: Collection[str]) -> None:
        self.app = app
        self.paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"] not in self.paths:
            await self.app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self.app({**scope, "method": "GET"}, receive, without_body)
