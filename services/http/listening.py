"""The listening socket of an HTTP server, and uvicorn's server on it, for the endpoint and the job service."""

import errno
import logging
import resource
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from dragoman.model.errors import UserError
from dragoman.services.http.connections import Clients, Connection

QUEUED_BY_THE_KERNEL = 2048  # connections that may wait to be accepted


class Server(uvicorn.Server):
    """uvicorn's server on a socket that is bound already."""

    def __init__(
        self,
        app: ASGIApp,
        listening: socket.socket,
        *,
        connections: int,
        per_address: int,
        grace: float,
        header: float,
        ready: Callable[[], None] = lambda: None,
        loop: Literal["asyncio", "uvloop"] = "asyncio",
        proxies: Sequence[str] = (),
    ) -> None:
        """`connections` at once, `per_address` of one; `grace`: seconds for requests to end after a signal; `header`:
        seconds for a request's header to arrive; `proxies`: the addresses and networks whose X-Forwarded-For counts;
        `ready` is called once requests are answered."""
        bounded = partial(Connection, clients=Clients(per_address, proxies), seconds=header)
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        super().__init__(
            uvicorn.Config(
                app,
                http=bounded,  # type: ignore[arg-type]  # is called as a class is
                loop=loop,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,  # uvicorn's own would log the query string
                proxy_headers=bool(proxies),
                forwarded_allow_ips=list(proxies),
                limit_concurrency=connections,
                timeout_graceful_shutdown=round(grace),
                backlog=QUEUED_BY_THE_KERNEL,
            )
        )
        self.listening, self.ready = listening, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts as uvicorn does, then calls `ready`."""
        await super().startup(sockets)
        if self.started:
            self.ready()

    def serve_requests(self) -> None:
        """Answers until a signal, or until `should_exit` is set."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a connection takes a descriptor; 1,024 are usual
        if hard != resource.RLIM_INFINITY and soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.run(sockets=[self.listening])


def bind(host: str, port: int, section: str = "serve") -> socket.socket:
    """Returns a listening socket for the keys host and port of `section`."""
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
