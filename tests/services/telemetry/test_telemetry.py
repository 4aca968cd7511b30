"""Traces: what is handed on, what is told to a collector, and that nothing is unless one is named."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from fastapi import FastAPI, HTTPException
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from dragoman.model.errors import UserError
from dragoman.services.telemetry.http_metrics import HttpMetrics
from dragoman.services.telemetry.spans import tell
from dragoman.services.telemetry.telemetry import Telemetry, current
from dragoman.services.telemetry.traceparent import TraceParent, check_address, parse, read_environment

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
PLACE = TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")


@pytest.mark.parametrize(
    "text",
    [
        *("", None, "x", "00-0-0-0", f"01-{'a' * 32}-{'b' * 16}-01", f"00-{'0' * 32}-{'b' * 16}-01"),
        *(f"00-{'a' * 32}-{'0' * 16}-01", f"00-{'A' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'b' * 16}-01-more"),
    ],
)
def test_what_is_no_traceparent_is_left_out(text: str | None) -> None:
    assert parse(text) is None


def test_a_traceparent_is_read_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse(str(PLACE)) == PLACE
    monkeypatch.setenv("TRACEPARENT", str(PLACE))
    assert read_environment() == PLACE
    child = PLACE.child("j-1-a1")
    assert child == PLACE.child("j-1-a1") != PLACE.child("j-1-a2")
    assert child.trace == PLACE.trace and parse(str(child)) == child


@pytest.mark.parametrize("address", ["collector:4318", "ftp://collector", "http://", "/v1/traces"])
def test_an_address_of_no_collector_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="OTLP over HTTP"):
        check_address(address)


def app(telemetry: Telemetry) -> FastAPI:
    one = FastAPI(telemetry=telemetry.make_fastapi_options())  # type: ignore[arg-type]

    @one.get("/words/{word}")
    def word(word: str) -> dict[str, str]:
        with telemetry.span("inside", size=len(word)):
            return {"place": str(current())}

    return one


def test_a_request_is_a_child_of_who_asks_and_tells_no_word_of_it() -> None:
    from fastapi.testclient import TestClient

    spans = InMemorySpanExporter()
    telemetry = Telemetry("test", exporter=spans)
    with TestClient(app(telemetry)) as client:
        answer = client.get("/words/secret", params={"q": "secret"}, headers={"traceparent": str(PLACE)})
    place = parse(answer.json()["place"])
    telemetry.close()
    inside, request = spans.get_finished_spans()
    assert place is not None and place.trace == PLACE.trace
    assert request.context and inside.context and f"{inside.context.span_id:016x}" == place.span
    assert request.parent and f"{request.parent.span_id:016x}" == PLACE.span
    assert (inside.name, request.name) == ("inside", "GET /words/{word}")
    assert inside.parent and inside.parent.span_id == request.context.span_id
    assert "secret" not in request.to_json() + inside.to_json()


def test_without_a_collector_there_are_no_spans_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastapi.testclient import TestClient

    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    telemetry = Telemetry("test")
    with TestClient(app(telemetry)) as client:
        assert client.get("/words/a").json() == {"place": "None"}
    assert telemetry.tracer is None
    text = telemetry.text().decode()
    assert 'http_server_request_duration_seconds_count{http_request_method="GET"' in text
    assert 'http_route="/words/{word}"' in text
    telemetry.close()


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector's address, and what came."""
    came: list[ExportTraceServiceRequest] = []

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            came.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Take) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", came
        server.shutdown()
        thread.join()


def test_a_promised_span_arrives_at_a_collector(collector: tuple[str, list[ExportTraceServiceRequest]]) -> None:
    address, came = collector
    telemetry = Telemetry("test", f"{address}/")
    assert telemetry.tracer
    promised = PLACE.child("j-1-a1")
    tell(telemetry.tracer, "attempt", promised, PLACE, 1000.0, 1002.5, True, {"job": "j-1"})
    tell(telemetry.tracer, "attempt", PLACE.child("j-1-a2"), PLACE, 1003.0, 1004.0, False, {"job": "j-1"})
    telemetry.close()
    (resource,) = came[0].resource_spans
    first, second = resource.scope_spans[0].spans
    assert (first.trace_id.hex(), first.span_id.hex(), first.parent_span_id.hex()) == (
        *(PLACE.trace, promised.span),
        PLACE.span,
    )
    assert (first.end_time_unix_nano - first.start_time_unix_nano, first.status.code) == (2_500_000_000, 2)
    assert (second.span_id.hex(), second.status.code) == (PLACE.child("j-1-a2").span, 0)
    names = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert names["service.name"] == "test"


def test_requests_in_front_of_fastapi_keep_their_labels_whatever_fastapi_has_measured() -> None:
    from fastapi.testclient import TestClient

    telemetry = Telemetry("test")
    one = app(telemetry)

    @one.get("/status")
    def status() -> None:
        raise HTTPException(503)

    lean = HttpMetrics(telemetry)
    with TestClient(one) as client:
        assert client.get("/status").status_code == 503  # a sample with error.type, which the others lack
    scope = {"scheme": "http", "method": "POST", "http_version": "1.1"}
    lean.begin(scope, "/translate")
    lean.end(scope, "/translate", 200, 0.1)
    for text in (telemetry.text(), telemetry.own_text()):
        families = [one for one in text_string_to_metric_families(text.decode()) if "request_duration" in one.name]
        assert text.count(b"# TYPE http_server_request_duration_seconds ") == 1 == len(families)
        counted = [one.labels for one in families[0].samples if one.name.endswith("_count")]
        routes = {(one["http_route"], one["http_request_method"], one["http_response_status_code"]) for one in counted}
        assert routes == {("/status", "GET", "503"), ("/translate", "POST", "200")}
    telemetry.close()
