"""The listening socket of an HTTP server, and the server on it, for the endpoint and the job service."""

import asyncio
import errno
import faulthandler
import logging
import resource
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal

import uvicorn
from starlette.types import ASGIApp

from dragoman.model.errors import UserError
from dragoman.services.http.connections import connection_class
from dragoman.services.http.proxies import Networks, Proxies

ACCEPTED_AT_ONCE = 32  # connections that asyncio accepts in one go, before it handles any of them
SPARE = 256  # descriptors besides connections: files, libraries, accepted connections not handled yet
QUEUED_BY_THE_KERNEL = 2048  # connections that may wait to be accepted
LAST, LEAST = 3.0, 0.5  # seconds of the grace for what runs beside requests; of a grace of 0
QUIET = 60.0  # seconds between two warnings about connections that cannot be accepted
logger = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """uvicorn's server on a socket that is bound already, with limited connections."""

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
        loop: Literal["asyncio", "uvloop"] = "asyncio",
        proxies: Networks = (),
    ) -> None:
        """`connections` at once; seconds: `patience` for a request's header, `grace` for the end after a signal.

        `proxies`: whose X-Forwarded-For counts; `refused` gets the status of every refused connection; `ready` is
        called once requests are answered.
        """
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        super().__init__(
            uvicorn.Config(
                Proxies(app, proxies) if proxies else app,
                proxy_headers=False,  # uvicorn's own believes whoever comes from this machine
                http=connection_class(connections, patience, refused),
                loop=loop,
                ws="none",
                backlog=ACCEPTED_AT_ONCE,
                log_config=None,
                access_log=False,  # uvicorn's own would log the query string
                timeout_graceful_shutdown=round(max(grace - LAST, grace / 2)),
            )
        )
        self.listening, self.ready, self.grace = listening, ready, grace

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts as uvicorn does, with a longer accept queue."""
        asyncio.get_running_loop().set_exception_handler(QuietAccept())
        await super().startup(sockets)
        if self.started:
            self.listening.listen(QUEUED_BY_THE_KERNEL)  # uvicorn asked for only as many as it accepts in one go
            self.ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops as uvicorn does; the process ends after `grace` seconds in any case, whatever its threads are at."""
        # a watchdog of its own thread, which needs nothing that a computing thread may hold
        faulthandler.dump_traceback_later(max(self.grace, LEAST), exit=True)
        super().handle_exit(sig, frame)

    def serve_requests(self) -> None:
        """Answers until a signal, or until `should_exit` is set."""
        self.run(sockets=[self.listening])


def reserve_descriptors(connections: int, section: str = "serve") -> None:
    """Lets this process open enough descriptors for so many connections (the key `section`.connections).

    Raises UserError: the system forbids it.
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
    """asyncio's exception handler, which reports missing descriptors only once per minute."""

    def __init__(self) -> None:
        self._said = -QUIET

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "socket.accept()" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif time.monotonic() - self._said >= QUIET:
            self._said = time.monotonic()
            logger.warning("connections cannot be accepted: %s", context.get("exception"))


def bind(host: str, port: int, section: str = "serve") -> socket.socket:
    """Returns a listening socket for the keys host and port of `section`.

    Raises UserError: the port is taken or forbidden, or the host is not this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    except socket.gaierror as problem:
        raise UserError(f"{section}.host: {host!r} is not an address of this machine ({problem.strerror})") from None
    # Name the protocol: without it, asyncio leaves Nagle's algorithm on, 40 ms per request on a kept-alive connection.
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
