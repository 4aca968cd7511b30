"""Connections of an HTTP server: limits their number, and the time that each may take to send a request.

A connection costs a file descriptor, and a process has 1,024 of them on most systems. So their number is limited and
one that sends no request in time is closed. At the limit the one that has waited longest is closed, so a thousand
half-open connections keep no client out.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER = 65_536  # most bytes of a request besides its body
LEAVING = "dragoman.leaving"  # ASGI extension: its `call` is called once the client has closed the connection
RETRY_AFTER = 1  # seconds for a client to wait when all connections are in use
LINGER = 2.0  # seconds for a refused client to read the answer
LINGERING = 64  # most refused connections that linger at once; they take descriptors too


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with a limit and a deadline for a request's header, errors as JSON, and eviction.

    `connection_class` sets its limits.
    """

    most: int  # connections
    refused: Callable[[int], None]  # called with the status of every refusal
    patience: float  # seconds from the connection, or the last answer, to the end of a request's header

    _since = 0.0  # start of its wait for a request, monotonic clock
    _deadline: asyncio.TimerHandle | None = None
    _leaving: asyncio.TimerHandle | None = None  # timer of a refused connection; its further input is discarded
    _asked: dict[object, object] | None = None  # by the application of the newest request: the extension LEAVING
    _begun = False  # a part of a request's header has come
    _received = 0  # bytes that came last
    _overhead = 0  # at most so many bytes of the request have come besides its body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._await_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._leaving is not None:
            self._leaving.cancel()
        super().connection_lost(exc)
        self._tell_left()

    def data_received(self, data: bytes) -> None:
        if self._leaving is not None:
            return
        self._received = len(data)
        self._overhead += len(data)
        super().data_received(data)
        waits = self._begun or (self.cycle is not None and self.cycle.more_body)
        if waits and self._overhead > HEADER and self._leaving is None and not self.transport.is_closing():
            self.refuse(431, f"The request's header exceeds {HEADER} bytes")

    def on_message_begin(self) -> None:
        self._begun, self._overhead = True, self._received
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._asked = {}
        self.scope["extensions"] = {LEAVING: self._asked}
        super().on_headers_complete()
        self._begun = False
        self._stop_waiting()

    def on_body(self, body: bytes) -> None:
        self._overhead -= len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self._await_request()
        super().on_response_complete()  # starts a request that has arrived in the meantime

    def _unsupported_upgrade_warning(self) -> None:
        """Says nothing: clients offer HTTP/2 (h2c) by this header, and go on without it."""

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, msg)

    def refuse(self, status: int, message: str) -> None:
        """Answers an incomplete or invalid request with an error, and closes.

        Writes nothing into an answer that has begun, or after one that the client does not read.
        """
        type(self).refused(status)
        begun = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if begun or self.pipeline or self.transport.get_write_buffer_size():
            self.transport.abort()
            return
        body = json.dumps({"error": message}).encode()
        again = f"Retry-After: {RETRY_AFTER}\r\n" if status == 503 else ""
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{again}Connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._leave()

    def _leave(self) -> None:
        """Stops sending, and closes when the client has closed or LINGER is over.

        Closing a socket with unread input resets the connection, and the client loses the answer.
        """
        self._stop_waiting()
        if self.cycle is not None and not self.cycle.response_complete:  # nobody will read its answer
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._tell_left()
        if sum(connection._leaving is not None for connection in self._known()) >= LINGERING:
            self.transport.close()
            return
        self.transport.write_eof()
        self._leaving = self.loop.call_later(LINGER, self.transport.abort)

    def shutdown(self) -> None:
        """Stops as uvicorn does, without waiting for clients: for the rest of a request, or to read an answer."""
        if self._leaving is not None:
            return
        if self.cycle is not None and not self.cycle.response_complete and self.cycle.more_body:
            self.refuse(503, "The server stops: try again later")
            return
        super().shutdown()
        if self.transport.is_closing():
            self.loop.call_later(LINGER, self.transport.abort)

    def _tell_left(self) -> None:
        """Calls what the application asked for, see LEAVING."""
        call: Any = self._asked and self._asked.pop("call", None)
        if call and not self.cycle.response_complete:
            call()

    def _known(self) -> Iterator["Connection"]:
        return (connection for connection in self.connections if isinstance(connection, Connection))

    @property
    def waits(self) -> bool:
        """Returns True if (the rest of) a request is still to come: closing it then loses nothing."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _await_request(self) -> None:
        self._stop_waiting()
        self._since = time.monotonic()
        self._deadline = self.loop.call_later(self.patience, self._time_out)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        if self._begun and not self.transport.is_closing():
            self.refuse(408, f"The request's header did not come in {self.patience:g} s")
        else:  # it sent nothing, or does not read its answer
            self.transport.abort()

    def _make_room(self) -> None:
        """At the limit, closes the connection that has waited longest for its client, or else this one."""
        others = [
            connection
            for connection in self._known()
            if connection is not self and connection._leaving is None and not connection.transport.is_closing()
        ]
        if len(others) < self.most:
            return
        waiting = [other for other in others if other.waits]
        (min(waiting, key=lambda other: other._since) if waiting else self)._evict()

    def _evict(self) -> None:
        if self.cycle is not None and self.cycle.response_complete and not self._begun:
            self.transport.close()  # between two requests any server may close: the client opens another connection
        else:
            self.refuse(503, f"All {self.most} connections are in use: try again later")


def connection_class(most: int, patience: float, refused: Callable[[int], None] = lambda _: None) -> type[Connection]:
    """Returns the protocol class that uvicorn makes for every connection, with its limits; `refused` gets refusals."""
    return type("Connection", (Connection,), {"most": most, "patience": patience, "refused": staticmethod(refused)})
