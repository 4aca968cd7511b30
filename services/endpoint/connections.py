"""The endpoint's connections: how many there may be, and how long one may take to say what it wants.

A connection costs a file descriptor, and a process has 1,024 of them on most systems. So their number is bounded, one
that sends no request in time is closed, and where the bound is reached the one that has waited longest makes room: a
thousand half-open connections keep nobody out.
"""

import asyncio
import errno
import json
import logging
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from model.errors import UserError

ACCEPTED_AT_ONCE = 32  # connections that asyncio takes in one go, before it looks at any of them
SPARE = 256  # descriptors beside the connections: files, libraries, what has been accepted and not yet looked at
QUEUED_BY_THE_KERNEL = 2048  # connections that may wait to be accepted
QUIET = 60.0  # seconds between two lines about connections that cannot be accepted
logger = logging.getLogger(__name__)


class Connection(H11Protocol):
    """uvicorn's, with a deadline for a request's header, errors in the endpoint's own shape, and a place to leave.

    `connection_class` gives it its numbers.
    """

    most: int  # connections
    refused: Callable[[int], None]  # told the status of every refusal
    patience: float  # seconds from the connection, or the last answer, to the end of a request's header

    _since = 0.0  # when it began to wait for a request, monotonic clock
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._await_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._await_request()
        super().on_response_complete()  # a request that came meanwhile is taken up here

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, msg)

    def refuse(self, status: int, message: str) -> None:
        """Answer what is no whole request, and close; nothing is written into an answer that has begun."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()
            return
        type(self).refused(status)
        body = json.dumps({"error": message}).encode()
        head = (
            f"HTTP/1.1 {status} {STATUS_PHRASES[status].decode()}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    @property
    def waits(self) -> bool:
        """Whether it has still to send (the rest of) a request: nothing is lost but its own time if it is closed."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _await_request(self) -> None:
        self._stop_waiting()
        self._since = time.monotonic()
        self._deadline = self.loop.call_later(self.patience, self._too_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        if self.conn.trailing_data[0] and not self.transport.is_closing():
            self.refuse(408, f"The request's header did not come in {self.patience:g} s")
        else:  # it said nothing, or does not read what was said to it
            self.transport.abort()

    def _make_room(self) -> None:
        """Where there are too many, close the one that has waited longest for its own client, or else this one."""
        ours = (one for one in self.connections if isinstance(one, Connection))
        others = [one for one in ours if one is not self and not one.transport.is_closing()]
        if len(others) < self.most:
            return
        waiting = [one for one in others if one.waits]
        if waiting:
            min(waiting, key=lambda one: one._since).transport.abort()
        else:
            self.refuse(503, f"All {self.most} connections are in use: try again later")


def connection_class(most: int, patience: float, refused: Callable[[int], None] = lambda _: None) -> type[Connection]:
    """The protocol that uvicorn makes for every connection, with its numbers; `refused` is told what it refuses."""
    return type("Connection", (Connection,), {"most": most, "patience": patience, "refused": staticmethod(refused)})


def reserve_descriptors(connections: int) -> None:
    """Let this process open as many descriptors as so many connections need.

    Raises:
        UserError: the system forbids it.
    """
    needed = connections + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"serve.connections: {connections} need {needed} file descriptors, and this process may open {hard} "
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
