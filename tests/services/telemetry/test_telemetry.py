"""Traces: what is handed on, what is told to a collector, and that nothing is unless one is named."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dragoman.services.telemetry.spans import tell
from dragoman.services.telemetry.telemetry import Telemetry, current
from dragoman.services.telemetry.traceparent import TraceParent, parse, read_environment

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
PLACE = TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")


@pytest.mark.parametrize(
    "text",
    [
        *("", None, "x", "00-0-0-0", f"ff-{'a' * 32}-{'b' * 16}-01", f"00-{'0' * 32}-{'b' * 16}-01"),
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


def test_without_a_collector_there_are_no_spans_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    telemetry = Telemetry("test")
    assert telemetry.tracer is None
    with telemetry.request_span("GET", "http", str(PLACE)) as span, telemetry.span("inside"):
        assert (span, current()) == (None, None)
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
