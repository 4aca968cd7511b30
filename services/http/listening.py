"""The socket at which an HTTP server listens, and the server behind it, for the endpoint and the job service."""

import asyncio
import errno
import logging
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from model.errors import UserError
from services.http.connections import connection_class

ACCEPTED_AT_ONCE = 32  # connections that asyncio takes in one go, before it looks at any of them
SPARE = 256  # descriptors beside the connections: files, libraries, what has been accepted and not yet looked at
QUEUED_BY_THE_KERNEL = 2048  # connections that may wait to be accepted
QUIET = 60.0  # seconds between two lines about connections that cannot be accepted
logger = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """uvicorn's over a socket that is bound already, with bounded connections."""

    def __init__(
        self,
        app: ASGIApp,
        listening: socket.socket,
        *,
        connections: int,
        patience: float,
        grace: float,
        refused: Callable[[int], None] = lambda _: None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`connections` at once; seconds: `patience` for a request's header, `grace` for requests at the end.

        `refused` is told the status of every connection that is refused; `ready` is called when requests are answered.
        """
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        super().__init__(
            uvicorn.Config(
                app,
                http=connection_class(connections, patience, refused),
                backlog=ACCEPTED_AT_ONCE,
                log_config=None,
                access_log=False,  # uvicorn's own would write down the query string
                timeout_graceful_shutdown=round(grace),
            )
        )
        self.listening, self.ready = listening, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's."""
        asyncio.get_running_loop().set_exception_handler(QuietAccept())
        await super().startup(sockets)
        if self.started:
            self.listening.listen(QUEUED_BY_THE_KERNEL)  # uvicorn has asked for as few as it accepts in one go
            self.ready()

    def serve_requests(self) -> None:
        """Answer until a signal, or until `should_exit` is set."""
        self.run(sockets=[self.listening])


def reserve_descriptors(connections: int, section: str = "serve") -> None:
    """Let this process open as many descriptors as so many connections need, those of the key `section`.connections.

    Raises:
        UserError: the system forbids it.
    """
    needed = connections + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"{section}.connections: {connections} need {needed} file descriptors, and this process may open {hard} "
            f"(ulimit -Hn): at most {hard - SPARE} here"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class QuietAccept:
    """asyncio's handler of what goes wrong in its loop: that no descriptor is left is said once a minute, in a line."""

    def __init__(self) -> None:
        self._said = -QUIET

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "socket.accept()" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif time.monotonic() - self._said >= QUIET:
            self._said = time.monotonic()
            logger.warning("connections cannot be accepted: %s", context.get("exception"))


def bind(host: str, port: int, section: str = "serve") -> socket.socket:
    """A listening socket, as the keys host and port of `section` ask for.

    Raises:
        UserError: the port is taken or forbidden, or the host is not this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    except socket.gaierror as problem:
        raise UserError(f"{section}.host: {host!r} is not an address of this machine ({problem.strerror})") from None
    # With its protocol named: without, asyncio leaves Nagle's algorithm on, 40 ms a request on a kept-alive connection.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(QUEUED_BY_THE_KERNEL)
    except OSError as problem:
        listening.close()
        if problem.errno == errno.EADDRINUSE:
            raise UserError(
                f"{section}.port: {port} is in use on {host}. Stop what listens there, or choose another: "
                f"{section}.port=0 takes a free one"
            ) from None
        if problem.errno == errno.EACCES:
            raise UserError(f"{section}.port: {port} may not be opened by this user; choose one above 1023") from None
        if problem.errno == errno.EADDRNOTAVAIL:
            raise UserError(f"{section}.host: {host!r} is not an address of this machine") from None
        raise
    return listening
