"""One service's registry of metrics, and its exporter of traces.

Nothing is sent without an address: metrics are fetched from /metrics, and no spans are made.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric

from dragoman.services.telemetry.http_metrics import HttpMetrics
from dragoman.services.telemetry.spans import FixedIds
from dragoman.services.telemetry.traceparent import TraceParent, of_context
from dragoman.services.version import version

FORMAT = "text/plain; version=0.0.4; charset=utf-8"  # of Prometheus' text format
# FastAPI measures nothing itself: the middleware around all routes does (services/http/middleware.py).
UNMEASURED: dict[str, Any] = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


class Telemetry:
    """The telemetry of the service `name`. `traces`: a collector for OTLP over HTTP, http://HOST:4318."""

    def __init__(self, name: str, traces: str | None = None, exporter: SpanExporter | None = None) -> None:
        """`exporter` takes the spans instead of a collector."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.http = HttpMetrics()
        self.registry.register(self.http)
        self.ids = FixedIds()
        self.tracers: TracerProvider | None = None
        if traces is not None:
            exporter = OTLPSpanExporter(endpoint=f"{traces.rstrip('/')}/v1/traces", timeout=5)
        if exporter is not None:
            resource = Resource.create({"service.name": name, "service.version": version()})
            self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=self.ids)
            self.tracers.add_span_processor(BatchSpanProcessor(exporter))

    @property
    def tracer(self) -> Tracer | None:
        """Returns the tracer; None if no collector is configured."""
        return None if self.tracers is None else self.tracers.get_tracer("dragoman")

    def span(self, name: str, **attributes: str | int | float) -> contextlib.AbstractContextManager[object]:
        """Makes a span for a block, within its request's span; does nothing without a collector."""
        if self.tracer is None:
            return contextlib.nullcontext()
        return self.tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        )

    def request_span(
        self, method: str, scheme: str, traceparent: str
    ) -> contextlib.AbstractContextManager[Span | None]:
        """Makes the span of a request, a child of whoever sent `traceparent`; does nothing without a collector."""
        if self.tracer is None:
            return contextlib.nullcontext()
        return self.tracer.start_as_current_span(
            method,
            context=TraceContextTextMapPropagator().extract({"traceparent": traceparent}),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "url.scheme": scheme},
            record_exception=False,
            set_status_on_exception=False,
        )

    def describe(self, span: Span | None, method: str, route: str, status: int) -> None:
        """Says in a request's span what it was, without its address: that may hold a user's text."""
        if span is not None:
            span.update_name(f"{method} {route}".rstrip())
            span.set_attributes({"http.route": route, "http.response.status_code": status})
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))

    def text(self, sees: Callable[[str], bool] | None = None) -> bytes:
        """Returns all metrics in Prometheus' FORMAT, without samples of owners that `sees` refuses."""
        return generate_latest(self.registry if sees is None else _Seen(self.registry, sees))

    def close(self) -> None:
        """Sends the remaining data."""
        if self.tracers is not None:
            self.tracers.shutdown()


def current() -> TraceParent | None:
    """Returns the place of this request's span; None if there is none."""
    return of_context(get_current_span().get_span_context())


class _Seen(CollectorRegistry):
    """A registry without the samples that are labelled with a hidden owner."""

    def __init__(self, registry: CollectorRegistry, sees: Callable[[str], bool]) -> None:
        super().__init__()
        self.registry, self.sees = registry, sees

    def collect(self) -> Iterator[Metric]:
        for metric in self.registry.collect():
            metric.samples = [
                sample for sample in metric.samples if "owner" not in sample.labels or self.sees(sample.labels["owner"])
            ]
            yield metric
