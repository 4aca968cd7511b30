"""The short way to /translate keeps what the middleware does."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.services.endpoint.app import create_lean_app
from dragoman.services.http.connections import LEAVING
from tests.services.endpoint.conftest import Client, Stage, lean_app

ASKED = {"source": "en", "target": "de"}


@pytest.fixture
def lean(stage: Stage) -> Client:
    return Client(lean_app(stage.endpoint))


def test_both_ways_give_the_same_answers(stage: Stage, lean: Client) -> None:
    asked: list[dict[str, Any]] = [
        {"json": {"q": "One dog. Two.", **ASKED}},
        {"json": {"q": ["a", "b"], "alternatives": 1, **ASKED}},
        {"data": {"q": "a dog", **ASKED}},
        {"params": {"q": "a dog", **ASKED}},
        {"content": json.dumps({"q": "é", **ASKED}).encode("utf-16")},
        {"json": {"q": "a", "source": "xx", "target": "de"}},
        {"json": {"q": "x" * 201, **ASKED}},
        {"json": {"q": "!bad", **ASKED}},
        {"json": {}},
        {"content": b"{"},
        {"content": b'{"q": "\\ud800", "source": "en", "target": "de"}'},
        {"content": b"[" * 900},
        {"content": b"x" * 1001},
        {"json": {"q": "a", **ASKED}, "headers": {"Origin": "http://elsewhere"}},
    ]
    for arguments in asked:
        long, short = (client.post("/translate", **arguments) for client in (stage.client, lean))
        assert (short.status_code, short.content) == (long.status_code, long.content)
        assert dict(short.headers) == dict(long.headers)
    assert lean.get("/translate").status_code == 405
    assert lean.get("/health").status_code == 200


def test_a_body_that_does_not_come_is_a_408_on_the_short_way_too(stage: Stage) -> None:
    stage.endpoint.receive_timeout = 0.05

    async def dripping() -> AsyncIterator[bytes]:
        yield b'{"q": "x'
        await asyncio.sleep(60)

    answer = Client(lean_app(stage.endpoint)).post("/translate", content=dripping())
    assert (answer.status_code, answer.headers["connection"]) == (408, "close")


def test_what_is_asked_and_refused_is_measured_and_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.endpoint.access_log = True
    client = Client(lean_app(stage.endpoint))
    caplog.set_level(logging.INFO, "services")

    message = "secret"

    def broken(*_: object) -> None:
        raise ValueError(message)

    assert client.post("/translate", json={"q": "a", **ASKED}).status_code == 200
    assert client.post("/translate", json={"q": "a"}).status_code == 400
    stage.queue.current = broken  # type: ignore[assignment]
    answer = client.post("/translate", json={"q": "secret", **ASKED})
    assert (answer.status_code, answer.json()) == (500, {"error": "Internal error"})
    stage.queue.current = lambda: None
    assert client.post("/translate", json={"q": "a", **ASKED}).status_code == 503
    lines = [one.getMessage() for one in caplog.records if one.getMessage().startswith("127.0.0.1 ")]
    assert [line.split()[1:4] for line in lines] == [
        ["POST", "/translate", code] for code in ("200", "400", "500", "503")
    ]
    assert not any("secret" in logging.Formatter().format(one) for one in caplog.records)
    telemetry = stage.endpoint.metrics.telemetry
    refused = [
        telemetry.registry.get_sample_value("dragoman_refused_total", {"reason": reason})
        for reason in ("invalid", "error", "unavailable")
    ]
    assert refused == [1, 1, 1]
    text = telemetry.text().decode()
    samples = [line for line in text.splitlines() if line.startswith("http_server_request_duration_seconds_count")]
    assert len(samples) == len({line.rpartition(" ")[0] for line in samples}) == 4
    (active,) = [line for line in text.splitlines() if line.startswith("http_server_active_requests")]
    assert active.endswith(" 0.0") and 'http_route="/translate"' in active


def test_who_leaves_frees_its_place_at_once(stage: Stage) -> None:
    stage.translator.open.clear()
    body = json.dumps({"q": ["gone"] * 4, **ASKED}).encode()
    extension: dict[str, Any] = {}

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    async def ask_and_leave() -> None:
        scope = {
            **{"type": "http", "method": "POST", "path": "/translate", "headers": [], "query_string": b""},
            **{"scheme": "http", "http_version": "1.1", "extensions": {LEAVING: extension}},
        }
        asking = asyncio.ensure_future(stage.client.app(scope, receive, send))
        while stage.batcher.queued < 4:
            await asyncio.sleep(0.01)
        extension["call"]()
        await asyncio.wait_for(asking, 10)

    model = stage.current[0]
    assert model is not None
    first = stage.batcher.submit(model, ["first"])
    while stage.batcher.queued:
        asyncio.run(asyncio.sleep(0.01))
    stage.client = Client(create_lean_app(stage.endpoint))
    asyncio.run(ask_and_leave())
    assert stage.batcher.queued == 0
    stage.translator.open.set()
    first.result(10)
    assert stage.translator.lines == ["first"]
