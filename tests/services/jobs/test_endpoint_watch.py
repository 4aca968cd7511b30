"""The watch over the endpoint: a real application's metrics, restarts, several endpoints at one address, none."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dragoman.conf import showing
from dragoman.services.jobs.service.endpoint_view import endpoint_view
from dragoman.services.jobs.service.endpoint_watch import EVERY, HOUR, EndpointWatch, quantile
from dragoman.services.jobs.service.loop import Loop
from tests.services.jobs.test_notifier import Clock
from tests.services.jobs.test_service import client

pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


class Stage:
    """An endpoint: what it answers, and its address."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.began, self.requests, self.slow, self.lost, self.refused = 1000.0, 0, 0, 0, 0
        self.status: dict[str, Any] = {"status": "ok", "reload_error": None}

    def metrics(self) -> str:
        name = "http_server_request_duration_seconds"
        route = 'http_route="/translate"'
        both = self.requests + self.slow
        buckets = {"0.1": self.requests, "0.5": both, "+Inf": both}
        return "\n".join(
            [
                "# TYPE process_start_time_seconds gauge",
                f"process_start_time_seconds {self.began}",
                f"# TYPE {name} histogram",
                *(
                    f'{name}_bucket{{{route},http_response_status_code="200",le="{le}"}} {n}'
                    for le, n in buckets.items()
                ),
                f'{name}_count{{{route},http_response_status_code="200"}} {both}',
                f'{name}_sum{{{route},http_response_status_code="200"}} {0.3 * self.slow}',
                f'{name}_count{{http_route="/metrics",http_response_status_code="200"}} 99999',
                "# TYPE dragoman_refused counter",
                f'dragoman_refused_total{{reason="queue_full"}} {self.refused}',
                'dragoman_refused_total{reason="key"} 0',
                "# TYPE dragoman_lost_sentences counter",
                f'dragoman_lost_sentences_total{{what="loops"}} {self.lost}',
                "# TYPE dragoman_not_kept counter",
                f'dragoman_not_kept_total{{what="terms"}} {2 * self.lost}',
                "# TYPE dragoman_model_info gauge",
                'dragoman_model_info{kind="translation",name="demo-en-de",version="7"} 1',
                "",
            ]
        )


@pytest.fixture
def stage() -> Iterator[Stage]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = found.metrics() if self.path == "/metrics" else json.dumps(found.status)
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Stage(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def look(watch: EndpointWatch, clock: Clock, later: float = 3 * EVERY) -> Any:
    clock.at += later
    return endpoint_view(watch.view())


def test_what_was_counted_before_is_left_out_and_restarts_and_replicas_are_understood(stage: Stage) -> None:
    clock = Clock()
    watch = EndpointWatch(stage.address, clock)
    stage.requests, stage.lost = 500, 40
    first = look(watch, clock)
    assert (first.state, first.requests, first.not_kept) == ("up", [], {"loops": 0.0, "terms": 0.0})
    assert [(one.kind, one.name, one.version) for one in first.models] == [("translation", "demo-en-de", "7")]
    stage.requests, stage.slow, stage.refused, stage.lost = 590, 10, 3, 41
    found = look(watch, clock)
    (route,) = found.requests
    assert (route.route, route.count, route.statuses) == ("/translate", 100.0, {"200": 100.0})
    assert 0.05 < route.p50 < 0.1 < route.p95 < route.p99 < 0.5
    assert (found.refused, found.not_kept) == ({"key": 0.0, "queue_full": 3.0}, {"loops": 1.0, "terms": 2.0})
    stage.began, stage.requests, stage.slow, stage.refused = clock.at + 10, 7, 0, 0  # it was started again
    found = look(watch, clock)
    assert (found.requests[0].count, found.refused["queue_full"], found.instances) == (107.0, 3.0, 2)
    stage.began, stage.requests, stage.slow = 1000.0, 600, 10  # another one, seen before, answers
    assert look(watch, clock).requests[0].count == 117.0
    stage.began, stage.requests = 900.0, 4000  # one that has run for long
    assert look(watch, clock).requests[0].count == 117.0
    assert look(watch, clock, HOUR + 60).requests == []


def test_an_endpoint_that_does_not_answer_has_no_model_or_is_not_there_is_said_to_be_so(stage: Stage) -> None:
    clock = Clock()
    none = EndpointWatch("", clock)
    assert look(none, clock).state == "none"
    away = EndpointWatch("http://127.0.0.1:9", clock)
    found = look(away, clock)
    assert found.state == "away" and found.trouble and found.answered is None
    stage.status = {"status": "loading", "reload_error": "no such alias"}
    found = look(EndpointWatch(stage.address, clock), clock)
    assert (found.state, found.trouble) == ("loading", "no such alias")


@pytest.mark.parametrize(
    ("share", "buckets", "expected"),
    [
        (0.5, {"1": 10, "2": 20, "+Inf": 20}, 1.0),
        (0.75, {"1": 10, "2": 20, "+Inf": 20}, 1.5),
        (0.99, {"1": 10, "+Inf": 20}, 1.0),  # beyond the last bound: the bound, as in Prometheus
        (0.5, {"1": 0, "+Inf": 0}, None),
        (0.5, {}, None),
    ],
)
def test_quantiles_are_those_of_prometheus(share: float, buckets: dict[str, float], expected: float | None) -> None:
    assert quantile(share, buckets) == expected


def test_page_rest_and_command_line_show_the_endpoint(
    loop: Loop, ask: Callable[..., int], capsys: pytest.CaptureFixture[str], stage: Stage
) -> None:
    loop.ledger.now = clock = Clock()  # type: ignore[assignment]
    http = client(loop)
    assert "No endpoint is known" in http.get("/endpoint").text
    watch = http.app.state.parts.endpoint_watch  # type: ignore[attr-defined]  # Starlette's client
    watch.address = stage.address
    page = http.get("/endpoint").text
    assert "demo-en-de" in page and "does not answer" not in page
    stage.requests, stage.lost = 60, 4
    clock.at += 60
    assert http.get("/v1/endpoint").json()["requests"][0]["count"] == 60
    page = http.get("/endpoint").text
    assert "/<wbr>translate" in page and "terms of glossaries" in page
    with showing.as_json():
        assert ask("endpoint") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "none"  # the other application has none
    assert ask("endpoint", "x") == 2
    watch.address = "http://127.0.0.1:9"
    clock.at += 60
    assert "does not answer" in http.get("/endpoint").text


def test_a_real_endpoint_is_understood(stage: Stage) -> None:
    """Its metrics have the names that the watch reads."""
    from dragoman.services.endpoint.app import create_app
    from dragoman.services.endpoint.endpoint import Endpoint
    from dragoman.services.jobs.service import endpoint_watch

    app = create_app(Endpoint(None))
    from fastapi.testclient import TestClient

    with TestClient(app, base_url="http://endpoint") as http:
        patch = pytest.MonkeyPatch()
        patch.setattr(endpoint_watch.httpx, "get", lambda url, timeout: http.get(url))
        try:
            clock = Clock()
            watch = EndpointWatch("http://endpoint", clock)
            look(watch, clock)
            assert http.post("/translate", json={"q": "x", "source": "en", "target": "de"}).status_code == 404
            found = look(watch, clock)
        finally:
            patch.undo()
    (route,) = found.requests
    assert (route.route, route.statuses) == ("/translate", {"404": 1.0})
    assert route.p50 is not None
    assert found.refused["unknown"] == 1.0
    assert {"terms", "tags", "placeholders", "words", "loops", "truncated"} <= found.not_kept.keys()
