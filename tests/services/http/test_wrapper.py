"""The wrapper of all routes: of handlers that take the request, and of those whose parameters FastAPI reads."""

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope

from dragoman.services.http.answers import as_json, refusal
from dragoman.services.http.connections import LEAVING
from dragoman.services.http.wrapper import Rules, Wrapper
from dragoman.services.telemetry.telemetry import UNMEASURED, Telemetry, current
from dragoman.services.telemetry.traceparent import TraceParent, parse
from tests.services.endpoint.conftest import Client

PLACE = TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
SECRET = "secret"


class Admitted(Request):
    """A request that was let in."""

    name = ""


async def admit(scope: Scope, receive: Receive) -> Admitted:
    call = Admitted(scope, receive)
    call.name = call.headers.get("x-name", "")
    if not call.name:
        raise HTTPException(403, "no name")
    return call


def refuse(_: Request, problem: Exception) -> Response | None:
    return refusal(problem.status_code, problem.detail, problem.headers) if isinstance(problem, HTTPException) else None


class Service:
    """A service of one route of each kind, and what it counted."""

    def __init__(self, telemetry: Telemetry | None = None, **rules: Any) -> None:
        self.telemetry = telemetry or Telemetry("test")
        self.counted: list[int] = []
        self.waiting, self.cancelled = asyncio.Event(), 0
        app = FastAPI(telemetry=UNMEASURED)  # type: ignore[arg-type]  # a dictionary of its keys

        @app.post("/direct/{word}")
        async def direct(call: Admitted) -> Response:
            return as_json([call.name, call.path_params["word"], (await call.body()).decode(), str(current())])

        @app.get("/read/{word}")
        async def read(word: str, number: int = 1) -> list[Any]:
            return [word, number, str(current())]

        @app.get("/open")
        async def open_(_: Request) -> Response:
            return as_json("open")

        @app.get("/broken")
        async def broken(_: Request) -> Response:
            raise ValueError(SECRET)

        @app.get("/broken/{word}")
        async def broken_read(word: str) -> None:
            raise ValueError(word)

        @app.get("/stream")
        async def stream(_: Request) -> Response:
            async def pieces() -> Any:
                yield "a"
                raise ValueError(SECRET)

            return StreamingResponse(pieces())

        async def wait() -> None:
            self.waiting.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

        @app.post("/wait")
        async def wait_direct(_: Request) -> Response:
            await wait()
            return Response()

        @app.post("/wait/{word}")
        async def wait_read(word: str) -> None:
            await wait()

        async def answer(request: Request, problem: Exception) -> Response:
            return refuse(request, problem) or Response(status_code=500)

        app.add_exception_handler(HTTPException, answer)
        settings = {"limit": 10, "patience": 0.1, "admit": {Admitted: admit}, "count": self.count, **rules}
        self.app = Wrapper(app, Rules(refuse=refuse, **settings), self.telemetry)

    def count(self, status: int, _reason: str | None) -> None:
        self.counted.append(status)

    def ask(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        return Client(self.app).request(method, path, **arguments)


def test_a_handler_gets_who_asks_and_fastapi_reads_what_others_take() -> None:
    service = Service()
    answer = service.ask("POST", "/direct/dog", content=b"text", headers={"x-name": "anna"})
    assert answer.json() == ["anna", "dog", "text", "None"]
    assert service.ask("GET", "/read/dog?number=2").json() == ["dog", 2, "None"]
    assert service.ask("GET", "/open").json() == "open"
    refused = service.ask("POST", "/direct/dog")
    assert (refused.status_code, refused.json()) == (403, {"error": "no name"})
    assert service.ask("GET", "/direct/dog").status_code == 405
    assert service.ask("GET", "/nowhere").json() == {"error": "Not Found"}
    assert service.counted == [403, 405, 404]


def test_a_body_has_a_limit_and_a_deadline_on_every_route() -> None:
    async def dripping() -> Any:
        yield b"x"
        await asyncio.sleep(60)

    for path in ("/direct/dog", "/wait/dog", "/nowhere"):
        long, slow = (Service().ask("POST", path, content=body) for body in (b"x" * 11, dripping()))
        assert (long.status_code, slow.status_code) == (413, 408)
        assert long.headers["connection"] == slow.headers["connection"] == "close"


@pytest.mark.parametrize("extended", [True, False], ids=["our server", "another server"])
@pytest.mark.parametrize("path", ["/wait", "/wait/dog"])
def test_the_work_for_a_client_that_leaves_is_cancelled(path: str, extended: bool) -> None:
    async def ask_and_leave() -> Service:
        service, left, extension = Service(), asyncio.Event(), dict[str, Any]()
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
        if extended:
            scope["extensions"] = {LEAVING: extension}
        asking = asyncio.ensure_future(service.app(scope, receive, send))
        await asyncio.wait_for(service.waiting.wait(), 10)
        left.set()
        if extended:
            extension["call"]()
        await asyncio.wait_for(asking, 10)
        assert not extension
        return service

    service = asyncio.run(ask_and_leave())
    assert (service.cancelled, service.counted) == (1, [])
    assert b'error_type="ConnectionError"' in service.telemetry.text()


def test_an_unexpected_error_is_answered_and_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(log=True)
    caplog.set_level(logging.INFO, "dragoman.services")
    for path in ("/broken", f"/broken/{SECRET}"):
        answer = service.ask("GET", path)
        assert (answer.status_code, answer.json()) == (500, {"error": "Internal error"})
    with pytest.raises(AssertionError):  # httpx's: the answer has no end
        service.ask("GET", "/stream")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("dragoman.")]
    assert [line.partition(":")[0] for line in lines if "failed" in line] == [
        "GET /broken failed",
        "GET /broken/{word} failed",
        "GET /stream failed",
    ]
    assert [line.split()[1:4] for line in lines if line.endswith(" ms")] == [
        ["GET", "/broken", "500"],
        ["GET", "/broken/{word}", "500"],
        ["GET", "/stream", "200"],
    ]
    written = [logging.Formatter().format(one) for one in caplog.records if one.name.startswith("dragoman.")]
    assert not any(SECRET in text for text in written)


def test_head_and_pages_of_other_origins_are_answered_on_every_route() -> None:
    service = Service(head=frozenset({"/open"}), origins=["http://page"], exposed=["X-Model-Name"])
    head = service.ask("HEAD", "/open")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "6")
    assert service.ask("HEAD", "/broken").status_code == 405
    for path in ("/open", "/read/dog"):
        assert service.ask("GET", path).headers["vary"] == "Origin"
        page = service.ask("GET", path, headers={"Origin": "http://page"})
        assert (page.headers["access-control-allow-origin"], page.headers["vary"]) == ("http://page", "Origin")
        assert "access-control-allow-origin" not in service.ask("GET", path, headers={"Origin": "http://other"}).headers
    asked = {"Origin": "http://page", "Access-Control-Request-Method": "POST"}
    assert service.ask("OPTIONS", "/direct/dog", headers=asked).headers["access-control-allow-origin"] == "http://page"


def test_requests_are_measured_by_route_and_status() -> None:
    service = Service()
    service.ask("GET", "/read/secret")
    service.ask("GET", "/broken/secret")
    service.ask("SECRET", "/secret")
    (durations,) = [
        family
        for family in text_string_to_metric_families(service.telemetry.text().decode())
        if family.name == "http_server_request_duration_seconds"
    ]
    counts = [sample.labels for sample in durations.samples if sample.name.endswith("_count")]
    names = "http_request_method", "http_route", "http_response_status_code", "error_type"
    assert [[labels[name] for name in names] for labels in counts] == [
        ["GET", "/read/{word}", "200", ""],
        ["GET", "/broken/{word}", "500", "500"],
        ["_OTHER", "", "404", ""],
    ]
    assert {sample.value for sample in durations.samples if sample.labels.get("le") == "+Inf"} == {1}
    active = [line for line in service.telemetry.text().decode().splitlines() if line.startswith("http_server_active")]
    assert sorted(line.rpartition(" ")[2] for line in active) == ["0.0", "0.0"]


def test_a_request_is_a_child_of_who_asks_and_tells_no_word_of_it() -> None:
    spans = InMemorySpanExporter()
    telemetry = Telemetry("test", exporter=spans)
    service = Service(telemetry)
    headers = {"traceparent": str(PLACE), "x-name": "anna"}
    direct = service.ask("POST", f"/direct/{SECRET}?q={SECRET}", headers=headers).json()[-1]
    read = service.ask("GET", f"/read/{SECRET}", headers=headers).json()[-1]
    telemetry.close()
    found = spans.get_finished_spans()
    assert [span.name for span in found] == ["POST /direct/{word}", "GET /read/{word}"]
    for span, place in zip(found, map(parse, (direct, read)), strict=True):
        assert place is not None and place.trace == PLACE.trace
        assert span.context and f"{span.context.span_id:016x}" == place.span
        assert span.parent and f"{span.parent.span_id:016x}" == PLACE.span
        assert SECRET not in json.dumps(span.to_json())
