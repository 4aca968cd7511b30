"""Connections of an HTTP server: how many there may be, and how long one may take to say what it wants.

A connection costs a file descriptor, and a process has 1,024 of them on most systems. So their number is bounded, one
that sends no request in time is closed, and where the bound is reached the one that has waited longest makes room: a
thousand half-open connections keep nobody out.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator

from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

RETRY_AFTER = 1  # seconds, which a client is asked to wait when all connections are in use
LINGER = 2.0  # seconds that a refused client has to read the answer
LINGERING = 64  # refused connections that may wait for that at once; they are descriptors too


class Connection(H11Protocol):
    """uvicorn's, with a deadline for a request's header, errors as JSON, and a place to leave.

    `connection_class` gives it its numbers.
    """

    most: int  # connections
    refused: Callable[[int], None]  # told the status of every refusal
    patience: float  # seconds from the connection, or the last answer, to the end of a request's header

    _since = 0.0  # when it began to wait for a request, monotonic clock
    _deadline: asyncio.TimerHandle | None = None
    _leaving: asyncio.TimerHandle | None = None  # of one that is refused: what it still sends is thrown away

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._await_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._leaving is not None:
            self._leaving.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._leaving is None:
            super().data_received(data)

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
        """Answer what is no whole request, and close.

        Nothing is written into an answer that has begun, or behind one that the client does not read.
        """
        type(self).refused(status)
        begun = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if begun or self.transport.get_write_buffer_size():
            self.transport.abort()
            return
        body = json.dumps({"error": message}).encode()
        again = f"Retry-After: {RETRY_AFTER}\r\n" if status == 503 else ""
        head = (
            f"HTTP/1.1 {status} {STATUS_PHRASES[status].decode()}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{again}Connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._leave()

    def _leave(self) -> None:
        """Say no more, and close when the client has closed or LINGER is over.

        A socket that is closed while it holds unread input resets the connection, and the client loses the answer.
        """
        self._stop_waiting()
        if self.cycle is not None and not self.cycle.response_complete:  # nobody will read what comes of it
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if sum(one._leaving is not None for one in self._ours()) >= LINGERING:
            self.transport.close()
            return
        self.transport.write_eof()
        self._leaving = self.loop.call_later(LINGER, self.transport.abort)

    def _ours(self) -> Iterator["Connection"]:
        return (one for one in self.connections if isinstance(one, Connection))

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
        others = [
            one for one in self._ours() if one is not self and one._leaving is None and not one.transport.is_closing()
        ]
        if len(others) < self.most:
            return
        waiting = [one for one in others if one.waits]
        (min(waiting, key=lambda one: one._since) if waiting else self)._give_way()

    def _give_way(self) -> None:
        if self.cycle is not None and self.cycle.response_complete and not self.conn.trailing_data[0]:
            self.transport.close()  # between two requests, where any server may close: its client opens another one
        else:
            self.refuse(503, f"All {self.most} connections are in use: try again later")


def connection_class(most: int, patience: float, refused: Callable[[int], None] = lambda _: None) -> type[Connection]:
    """The protocol that uvicorn makes for every connection, with its numbers; `refused` is told what it refuses."""
    return type("Connection", (Connection,), {"most": most, "patience": patience, "refused": staticmethod(refused)})
