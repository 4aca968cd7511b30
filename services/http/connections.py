"""The bounds of a client's connections and requests: uvicorn's own count all clients together.

A stranger who opens a thousand connections, or asks a thousand things at once, gets no more than a share of the
server; whoever comes next is answered. A proxy that the settings name has no bound of its own: its clients have.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.services.http.addresses import is_within, network_of

HEADER = 65_536  # bytes of a request's line and header
WARN_EVERY = 60.0  # seconds between two warnings
TOO_LARGE = f"The request's header exceeds {HEADER} bytes"
logger = logging.getLogger(__name__)


class Clients:
    """The number of connections, or of requests, that each client has open."""

    def __init__(self, most: int, proxies: Sequence[str]) -> None:
        """A client may have `most`; the addresses and networks of `proxies` as many as they like."""
        self.most, self.proxies = most, tuple(proxies)
        self._open: Counter[str] = Counter()
        self._next_warning = 0.0  # monotonic

    def enter(self, address: str) -> bool:
        """Counts one more of a client; returns False if it has as many as it may have. `leave` is called either way."""
        client = network_of(address)
        self._open[client] += 1
        if self._open[client] <= self.most or is_within(address, self.proxies):
            return True
        if time.monotonic() > self._next_warning:
            self._next_warning = time.monotonic() + WARN_EVERY
            logger.warning("%s has %d connections or requests open: more of it are refused", client, self.most)
        return False

    def leave(self, address: str) -> None:
        """Counts one less."""
        client = network_of(address)
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]


class Connection(HttpToolsProtocol):
    """A connection of uvicorn whose address has not too many, and whose requests' headers are in time and not large."""

    def __init__(self, *arguments: Any, clients: Clients, seconds: float, **named: Any) -> None:
        """`seconds`: time for a header to arrive."""
        super().__init__(*arguments, **named)
        self._clients, self._seconds, self._address = clients, seconds, ""
        self._received, self._read = 0, 0  # bytes of an unfinished header, and of its lines that were read
        self._late: asyncio.TimerHandle | None = None  # closes the connection; None: no header is awaited

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if self._clients.enter(self._address):
            self._await_header()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.leave(self._address)
        self._end_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._late is not None and not self.transport.is_closing():
            self._received += len(data)
            if self._received > HEADER:
                self.send_400_response(TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._received, self._read = 0, 0
        if self._late is None:
            self._await_header()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(name, value)

    def on_headers_complete(self) -> None:
        self._end_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuses a request that cannot be read, or whose header is too large."""
        if max(self._received, self._read) <= HEADER:
            super().send_400_response(msg)
            return
        head = f"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: {len(TOO_LARGE)}"
        self.transport.write(f"{head}\r\n\r\n{TOO_LARGE}".encode())
        self.transport.close()

    def _count(self, *pieces: bytes) -> None:
        self._read += sum(map(len, pieces))
        if self._read > HEADER:
            raise ValueError(TOO_LARGE)  # the parser stops

    def _await_header(self) -> None:
        self._late = self.loop.call_later(self._seconds, self.transport.abort)

    def _end_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
