"""The middleware around all routes: of a service on Starlette, as the endpoint is, and on FastAPI, as the jobs'."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dragoman.services.http.answers import refusal
from dragoman.services.http.connections import Clients
from dragoman.services.http.middleware import INTERNAL, Guard
from dragoman.services.telemetry import Telemetry

SECRET = "secret"


class Service:
    """A service with a route of each kind."""

    def __init__(self, kind: str, **settings: Any) -> None:
        self.telemetry = Telemetry()
        self.waiting, self.cancelled = asyncio.Event(), 0
        guard = {"telemetry": self.telemetry, "limit": 10, "seconds": 0.1, "fail": lambda _: refusal(500, INTERNAL)}
        guard |= {"clients": Clients(2, proxies=["10.0.0.7"]), "private": lambda: False}
        routes = {"/echo/{word}": self.echo, "/broken/{word}": self.broken, "/stream": self.stream, "/wait": self.wait}
        self.app: Any
        if kind == "starlette":
            made = [Route(path, handler, methods=["GET", "POST"]) for path, handler in routes.items()]
            self.app = Starlette(routes=made, middleware=[Middleware(Guard, **guard | settings)])
        else:
            self.app = FastAPI()
            for path, handler in routes.items():
                self.app.api_route(path, methods=["GET", "POST"])(handler)
            self.app.add_middleware(Guard, **guard | settings)

    async def echo(self, request: Request) -> Response:
        return JSONResponse([request.path_params["word"], (await request.body()).decode()])

    async def broken(self, request: Request) -> Response:
        raise ValueError(request.path_params["word"])

    async def stream(self, _: Request) -> Response:
        async def pieces() -> AsyncIterator[str]:
            yield "a"
            raise ValueError(SECRET)

        return StreamingResponse(pieces())

    async def wait(self, request: Request) -> Response:
        await request.body()
        self.waiting.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Response()

    def ask(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await client.request(method, path, **arguments)

        return asyncio.run(asked())


@pytest.fixture(params=["starlette", "fastapi"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_body_has_a_limit_and_a_deadline(kind: str) -> None:
    async def dripping() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.sleep(60)

    service = Service(kind, larger={"/echo/b": 20})
    assert service.ask("POST", "/echo/a", content=b"x" * 10).json()[:2] == ["a", "x" * 10]
    assert service.ask("POST", "/echo/b", content=b"x" * 20).status_code == 200
    long, slow = (service.ask("POST", "/echo/a", content=body) for body in (b"x" * 11, dripping()))
    assert (long.status_code, slow.status_code) == (413, 408)
    assert long.headers["connection"] == slow.headers["connection"] == "close"


def test_the_work_for_a_client_that_leaves_is_cancelled(kind: str) -> None:
    async def ask_and_leave() -> Service:
        service, left = Service(kind), asyncio.Event()
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        scope = {"type": "http", "method": "POST", "path": "/wait", "headers": [], "query_string": b""}
        asking = asyncio.ensure_future(service.app(scope, receive, send))
        await asyncio.wait_for(service.waiting.wait(), 10)
        left.set()
        await asyncio.wait_for(asking, 60)
        return service

    service = asyncio.run(ask_and_leave())
    assert service.cancelled == 1
    assert b'error_type="ConnectionError"' in service.telemetry.text()


def test_a_client_has_so_many_requests_at_work_and_a_named_proxys_clients_have_their_own(kind: str) -> None:
    service = Service(kind, seconds=60)

    async def statuses(addresses: Sequence[str]) -> list[int]:
        async def ask(address: str) -> int:
            transport = httpx.ASGITransport(service.app, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return (await client.post(f"/{'wait' if address in held else 'echo/a'}")).status_code

        held, waiting = addresses[:-1], []
        for address in held:
            waiting.append(asyncio.ensure_future(ask(address)))
            await asyncio.sleep(0.05)
        answer = await ask(addresses[-1])
        for task in waiting:
            task.cancel()
        refused = await asyncio.gather(*waiting, return_exceptions=True)
        return [*(status for status in refused if isinstance(status, int)), answer]

    assert asyncio.run(statuses(["192.0.2.1"] * 3 + ["192.0.2.2"])) == [429, 200]
    assert asyncio.run(statuses(["2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.2"])) == [429, 200]
    assert asyncio.run(statuses(["10.0.0.7"] * 3 + ["192.0.2.2"])) == [200]


def test_a_private_service_answers_to_the_names_of_its_machine_alone(kind: str) -> None:
    service = Service(kind, private=lambda: True)
    for host, status in (
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example:80", 403),
        ("", 403),
    ):
        assert service.ask("GET", "/echo/a", headers={"Host": host}).status_code == status


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"x", "more_body": True}]

    async def receive() -> Any:
        return messages.pop()

    async def send(message: Any) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "POST", "path": "/echo/a", "headers": [], "query_string": b""}
    asyncio.run(Service(kind).app(scope, receive, send))
    assert not [record for record in caplog.records if record.name.startswith("dragoman.")]


def test_an_unexpected_error_is_answered_and_logged_without_its_message(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(kind, log=True)
    caplog.set_level(logging.INFO, "dragoman.services")
    answer = service.ask("GET", f"/broken/{SECRET}")
    assert (answer.status_code, answer.json()) == (500, {"error": INTERNAL})
    with pytest.raises(AssertionError):  # httpx's: the answer has no end
        service.ask("GET", "/stream")
    records = [record for record in caplog.records if record.name.startswith("dragoman.")]
    lines = [record.getMessage() for record in records]
    failures = [line.partition(":")[0] for line in lines if "failed" in line]
    assert failures == ["GET /broken/{word} failed", "GET /stream failed"]
    requests = [line.split()[1:4] for line in lines if line.endswith(" ms")]
    assert requests == [["GET", "/broken/{word}", "500"], ["GET", "/stream", "200"]]
    assert not any(SECRET in logging.Formatter().format(record) for record in records)


def test_requests_are_measured_by_route_and_status(kind: str) -> None:
    service = Service(kind)
    service.ask("GET", "/echo/secret")
    service.ask("GET", "/broken/secret")
    service.ask("SECRET", "/secret")
    text = service.telemetry.text().decode()
    (durations,) = [
        family
        for family in text_string_to_metric_families(text)
        if family.name == "http_server_request_duration_seconds"
    ]
    counts = [sample.labels for sample in durations.samples if sample.name.endswith("_count")]
    names = "http_request_method", "http_route", "http_response_status_code", "error_type"
    assert [[labels[name] for name in names] for labels in counts] == [
        ["GET", "/echo/{word}", "200", ""],
        ["GET", "/broken/{word}", "500", "500"],
        ["_OTHER", "", "404", ""],
    ]
    active = [line for line in text.splitlines() if line.startswith("http_server_active")]
    assert sorted(line.rpartition(" ")[2] for line in active) == ["0.0", "0.0"]
