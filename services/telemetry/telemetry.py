"""One service's registry of metrics, and its exporter of traces.

FastAPI measures HTTP itself (http.server.request.duration and http.server.active_requests of OpenTelemetry); Dragoman's
own metrics are in the same registry. Nothing is sent without an address: metrics are fetched from /metrics, and no
spans are made.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from itertools import chain
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Tracer, get_current_span
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric

from dragoman.services.telemetry.spans import FixedIds
from dragoman.services.telemetry.traceparent import TraceParent, check_address
from dragoman.services.version import version

FORMAT = "text/plain; version=0.0.4; charset=utf-8"  # of Prometheus' text format
UNMEASURED = frozenset({"/metrics"})
MEASURED = "dragoman.measured"  # in the scope of a request that is measured by us and not by FastAPI
HIDDEN = ("url.path", "url.query")  # may contain a user's text; the route stays


class Telemetry:
    """The telemetry of the service `name`. `traces`: a collector for OTLP over HTTP, http://HOST:4318."""

    def __init__(self, name: str, traces: str | None = None, exporter: SpanExporter | None = None) -> None:
        """`exporter` takes the spans instead of a collector.

        Raises:
            UserError: `traces` is no address.
        """
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        resource = Resource.create({"service.name": name, "service.version": version()})
        self.meters = _meters(self.registry, resource)
        # Of one metric from two meters the exporter mixes up the labels where one of them has fewer: each has its own.
        self._lean = CollectorRegistry()
        self.lean_meters = _meters(self._lean, resource)  # of requests that do not come to FastAPI
        self.others: Callable[[bytes], bytes] = bytes  # adds the metrics of other processes of the service
        self.ids = FixedIds()
        self.tracers: TracerProvider | None = None
        if traces is not None:
            exporter = OTLPSpanExporter(endpoint=f"{check_address(traces)}/v1/traces", timeout=5)
        if exporter is not None:
            self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=self.ids)
            self.tracers.add_span_processor(_Discreet())
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

    def make_fastapi_options(self) -> dict[str, Any]:
        """Returns the argument `telemetry` of a FastAPI application."""
        return {
            "meter_provider": self.meters,
            "tracer_provider": self.tracers,
            "tracing": self.tracers is not None,
            "operation_spans": False,
            "logs": False,  # they would contain messages, and so users' texts
            "auto_configure": False,  # environment variables must not turn on what the settings do not
            "exclude": _is_unmeasured,
        }

    def text(self, sees: Callable[[str], bool] = lambda _: True) -> bytes:
        """Returns all metrics in Prometheus' FORMAT, without samples of owners that `sees` refuses."""
        return self.others(generate_latest(_Seen((self.registry, self._lean), sees)))

    def own_text(self) -> bytes:
        """Returns the metrics of this process alone."""
        return generate_latest(_Seen((self.registry, self._lean), lambda _: True))

    def close(self) -> None:
        """Sends the remaining data."""
        if self.tracers is not None:
            self.tracers.shutdown()
        self.meters.shutdown()
        self.lean_meters.shutdown()


def current() -> TraceParent | None:
    """Returns the place of this request's span; None if there is none."""
    found = get_current_span().get_span_context()
    if not found.is_valid:
        return None
    return TraceParent(f"{found.trace_id:032x}", f"{found.span_id:016x}", f"{int(found.trace_flags):02x}")


def _is_unmeasured(scope: MutableMapping[str, Any]) -> bool:
    return scope.get("path") in UNMEASURED or MEASURED in scope


def _meters(registry: CollectorRegistry, resource: Resource) -> MeterProvider:
    reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
    return MeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)


class _Seen(CollectorRegistry):
    """Registries as one, without the samples that are labelled with a hidden owner."""

    def __init__(self, registries: Sequence[CollectorRegistry], sees: Callable[[str], bool]) -> None:
        super().__init__()
        self.registries, self.sees = registries, sees

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for metric in chain.from_iterable(one.collect() for one in self.registries):
            metric.samples = [one for one in metric.samples if self._shows(one.labels)]
            if metric.name in found:
                found[metric.name].samples += metric.samples
            else:
                found[metric.name] = metric
        yield from found.values()

    def _shows(self, labels: Mapping[str, str]) -> bool:
        return "owner" not in labels or self.sees(labels["owner"])


class _Discreet(SpanProcessor):
    """Keeps FastAPI's notes on a request's address within the process."""

    def on_start(self, span: Span, parent_context: object = None) -> None:
        for name in HIDDEN:
            if span.attributes and name in span.attributes:
                span.set_attribute(name, "(not told)")
