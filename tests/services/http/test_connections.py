"""The bounds of connections and headers, with real sockets: strangers come from addresses of their own."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dragoman.services.http.listening import Server, bind

STRANGER, NEIGHBOUR, PROXY = "127.0.0.2", "127.0.0.3", "127.0.0.4"
MOST = 3  # connections of an address
WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"


async def home(_: object) -> PlainTextResponse:
    return PlainTextResponse("here")


@contextlib.contextmanager
def serving(header: float = 60.0) -> Iterator[int]:
    with contextlib.closing(bind("127.0.0.1", 0)) as listening:
        app = Starlette(routes=[Route("/", home)])
        server = Server(app, listening, connections=100, per_address=MOST, grace=1, header=header, proxies=[PROXY])
        thread = threading.Thread(target=server.serve_requests)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def connect(port: int, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(address, 0))


def ask(port: int, address: str, *pieces: bytes) -> bytes:
    """Returns the first bytes of the answer; none if the connection is closed without one."""
    with connect(port, address) as connection, contextlib.suppress(ConnectionError):
        for piece in pieces:  # each arrives by itself
            connection.sendall(piece)
            time.sleep(0.02)
        return connection.recv(16)
    return b""


def test_an_address_has_so_many_connections_and_others_are_answered() -> None:
    with serving() as port, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(port, STRANGER)) for _ in range(MOST)]
        assert ask(port, STRANGER, WHOLE) == b""
        assert ask(port, NEIGHBOUR, WHOLE).startswith(b"HTTP/1.1 200")
        held[0].close()
        deadline = time.monotonic() + 30
        while not ask(port, STRANGER, WHOLE).startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < deadline
        proxied = [stack.enter_context(connect(port, PROXY)) for _ in range(3 * MOST)]
        assert len(proxied) == 3 * MOST and ask(port, PROXY, WHOLE).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("beginning", [b"", b"GET / HTTP/1.1\r\nHo"])
def test_a_header_that_does_not_come_closes_its_connection(beginning: bytes) -> None:
    with serving(header=0.1) as port:
        assert ask(port, STRANGER, beginning) == b""


def test_a_header_has_a_limit_whether_it_is_whole_or_still_comes() -> None:
    start = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nX: "
    kept, more = [b"x" * 20_000] * 3, [b"x" * 30_000] * 3
    with serving() as port:
        assert ask(port, STRANGER, start, *kept, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert ask(port, STRANGER, start + b"\r\nX: ".join(kept) + b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert ask(port, STRANGER, start + b"\r\nX: ".join(more) + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
        assert ask(port, STRANGER, b"GET /" + b"".join(more) + b" HTTP/1.1\r\nHost: here\r\n\r\n").startswith(
            b"HTTP/1.1 431"
        )
        assert ask(port, STRANGER, start, *more).startswith(b"HTTP/1.1 431")
