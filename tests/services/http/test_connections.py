"""Real connections to a server in this process: their deadlines, their number, what is written down of them."""

import asyncio
import contextlib
import functools
import logging
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from dragoman.model.errors import UserError
from dragoman.services.http import connections
from dragoman.services.http.connections import RETRY_AFTER, Connection
from dragoman.services.http.listening import QuietAccept, Server, bind, reserve_descriptors

PATIENCE = 60  # seconds; nothing here takes long, but the machine may be busy
REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@contextlib.asynccontextmanager
async def served(
    most: int = 100, patience: float = PATIENCE, refused: Callable[[int], None] = lambda _: None
) -> AsyncIterator[tuple[Server, "Clients"]]:
    """The server, and what opens connections to it."""
    with contextlib.closing(bind("127.0.0.1", 0)) as listening:
        server = Server(hello, listening, connections=most, patience=patience, grace=1, refused=refused)
        server.config.lifespan = "off"
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup([listening])
        clients = Clients(listening.getsockname()[1])
        try:
            yield server, clients
        finally:
            clients.close()
            await server.shutdown([listening])


class Clients:
    """Connections, all closed at the end."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writers: list[asyncio.StreamWriter] = []

    async def open(self, said: bytes = b"") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(said)
        return reader, writer

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs the test on the event loop of the job service, and on the endpoint's."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        for new_loop in (asyncio.new_event_loop, uvloop.new_event_loop):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(asyncio.wait_for(test(**fixtures), PATIENCE))

    return run


async def until(done: Callable[[], bool]) -> None:
    while not done():
        await asyncio.sleep(0.01)


@on_both_loops
async def test_small_packets_are_sent_at_once_on_every_connection() -> None:
    """A kept-alive connection under Nagle's algorithm waits 40 ms for each answer."""
    async with served() as (server, clients):
        await clients.open()
        await until(lambda: len(server.server_state.connections) == 1)
        (connection,) = server.server_state.connections
        assert isinstance(connection, Connection)
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize(("said", "answer"), [(b"", b""), (b"GET / HTTP/1.1\r\nHost:", b"HTTP/1.1 408 ")])
@on_both_loops
async def test_a_header_that_does_not_come_is_not_waited_for(said: bytes, answer: bytes) -> None:
    async with served(patience=0.1) as (_, clients):
        reader, _ = await clients.open(said)
        got = await reader.read()  # until the server closes
        assert got.startswith(answer)
        assert got.endswith(b'in 0.1 s"}') or not said


@on_both_loops
async def test_a_kept_alive_connection_is_answered_again_and_its_deadline_begins_anew() -> None:
    async with served() as (server, clients):
        reader, writer = await clients.open()
        await until(lambda: len(server.server_state.connections) == 1)
        (connection,) = server.server_state.connections
        assert isinstance(connection, Connection)
        deadlines = {connection._deadline}
        for _ in range(3):
            writer.write(REQUEST)
            assert (await reader.readuntil(b"hi")).startswith(b"HTTP/1.1 200 OK")
            deadlines.add(connection._deadline)
        assert len(deadlines - {None}) == 4


@on_both_loops
async def test_half_open_connections_keep_nobody_out_and_are_told_so() -> None:
    refused: list[int] = []
    async with served(most=20, refused=refused.append) as (server, clients):
        opened = [await clients.open(b"POST / HTTP/1.1\r\n") for _ in range(60)]
        reader, _ = await clients.open(REQUEST)
        assert (await reader.readuntil(b"hi")).startswith(b"HTTP/1.1 200 OK")
        first = await opened[0][0].read()  # until the server closes: no reset
        assert first.startswith(b"HTTP/1.1 503 ") and f"\r\nRetry-After: {RETRY_AFTER}\r\n".encode() in first
        assert refused == [503] * 41
        clients.close()
        await until(lambda: len(server.server_state.connections) <= 20)


@on_both_loops
async def test_a_refused_client_that_is_still_sending_gets_its_answer() -> None:
    """A socket that is closed with unread input would reset the connection, and the answer would be lost."""
    async with served(most=1) as (server, clients):
        reader, writer = await clients.open(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n")
        await until(lambda: len(server.server_state.connections) == 1)
        await clients.open(b"P")
        for _ in range(10):
            writer.write(b"x" * 10_000)
            await asyncio.sleep(0.01)
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")


@on_both_loops
async def test_refused_clients_that_stay_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LINGER", 0.05)
    monkeypatch.setattr(connections, "LINGERING", 5)
    async with served(most=10) as (server, clients):
        for _ in range(40):
            await clients.open(b"POST / HTTP/1.1\r\n")
        await until(lambda: len(server.server_state.connections) <= 10)


@on_both_loops
async def test_a_connection_between_two_requests_makes_room_without_a_word() -> None:
    """Its client would take an answer for that of its next request."""
    refused: list[int] = []
    async with served(most=1, refused=refused.append) as (_, clients):
        idle, _ = await clients.open(REQUEST)
        await idle.readuntil(b"hi")
        reader, _ = await clients.open(REQUEST)
        assert (await reader.readuntil(b"hi")).startswith(b"HTTP/1.1 200 OK")
        assert (await idle.read(), refused) == (b"", [])


@on_both_loops
async def test_where_every_connection_is_being_answered_one_more_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "waits", False)
    refused: list[int] = []
    async with served(most=1, refused=refused.append) as (_, clients):
        await clients.open(REQUEST)
        reader, _ = await clients.open(REQUEST)
        got = await reader.read()
        assert b"\r\nRetry-After: 1\r\n" in got
        assert got.endswith(b'{"error": "All 1 connections are in use: try again later"}')
        assert refused == [503]


@on_both_loops
async def test_a_server_that_stops_waits_for_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle, with half a header, with half a body; and who has a request at work gets the answer."""
    monkeypatch.setattr(connections, "LINGER", 0.05)
    async with served() as (server, clients):
        for said in (b"", REQUEST, b"GET / HTTP/1.1\r\nHost:"):
            await clients.open(said)
        half, _ = await clients.open(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nx")
        await until(lambda: sum(one.cycle is not None for one in server.server_state.connections) == 2)
        await until(lambda: len(server.server_state.connections) == 4)
        await asyncio.wait_for(server.shutdown([]), PATIENCE / 2)
        assert not server.server_state.connections
        assert (await half.read()).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 100_000,  # one line that does not end
        b"GET / HTTP/1.1\r\n" + (b"X-Long: " + b"x" * 1000 + b"\r\n") * 100,
        b"GET /" + b"x" * 100_000,
    ],
    ids=["a line", "many lines", "an address"],
)
@on_both_loops
async def test_a_header_is_bounded_however_it_comes(said: bytes) -> None:
    async with served() as (_, clients):
        reader, writer = await clients.open()
        with contextlib.suppress(ConnectionError):
            writer.write(said)
            await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")


@on_both_loops
async def test_clients_that_offer_http_2_are_answered() -> None:
    """Java's client sends this header with every request."""
    upgrade = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAA\r\n"
    )
    async with served() as (_, clients):
        reader, writer = await clients.open()
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n" + upgrade + b"\r\nab")
            assert (await reader.readuntil(b"hi")).startswith(b"HTTP/1.1 200 OK")


@on_both_loops
async def test_what_is_no_http_is_answered_in_json() -> None:
    async with served() as (_, clients):
        reader, _ = await clients.open(b"\x1b[31m nonsense\r\n\r\n")
        got = await reader.read()
        assert got.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n")
        assert got.endswith(b'{"error": "Invalid HTTP request received."}')


def test_accept_errors_are_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    handler = QuietAccept()
    loop = asyncio.new_event_loop()
    caplog.clear()  # of what asyncio says of a new loop, where a test before has left its level low
    with contextlib.closing(loop), caplog.at_level(logging.WARNING):
        for _ in range(1000):
            handler(loop, {"message": "socket.accept() out of system resource", "exception": OSError(24, "too many")})
    assert [record.getMessage() for record in caplog.records] == ["connections cannot be accepted: [Errno 24] too many"]


def test_more_connections_than_descriptors_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    reserve_descriptors(512)
    assert not asked  # the default fits where 1,024 are allowed
    reserve_descriptors(2000)
    assert asked == [(2256, 4096)]
    with pytest.raises(UserError, match=r"serve\.connections: 5000 need 5256 .* at most 3840 here"):
        reserve_descriptors(5000)
