"""One service's metrics, which Prometheus fetches from /metrics; those of HTTP have OpenTelemetry's names."""

import shutil
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPMethod
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

FORMAT = "text/plain; version=0.0.4; charset=utf-8"  # of Prometheus' text format
# FastAPI measures nothing itself: the middleware around all routes does (services/http/middleware.py).
UNMEASURED: dict[str, Any] = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
BOUNDS = (*map(str, SECONDS), "+Inf")
METHODS = frozenset(HTTPMethod)
LEFT = "ConnectionError"  # the kind of error of a request whose client has left
Key = tuple[str, str, str, str, int]  # scheme, method, version, route (empty: none), status (0: the client has left)


class HttpMetrics(Collector):
    """Durations and numbers of the requests of one service."""

    def __init__(self) -> None:
        self._durations: dict[Key, list[float]] = {}  # requests by bucket, then their seconds together
        self._active: Counter[tuple[str, str]] = Counter()

    def begin(self, scheme: str, method: str) -> None:
        """Counts a request."""
        self._active[scheme, method if method in METHODS else "_OTHER"] += 1

    def end(self, scheme: str, method: str, version: str, route: str, status: int, seconds: float) -> None:
        """Records a request that has ended; status 0: its client has left."""
        if method not in METHODS:
            method = "_OTHER"
        self._active[scheme, method] -= 1
        counts = self._durations.get((scheme, method, version, route, status))
        if counts is None:
            counts = self._durations[scheme, method, version, route, status] = [0.0] * (len(SECONDS) + 2)
        counts[bisect_left(SECONDS, seconds)] += 1
        counts[-1] += seconds

    def collect(self) -> Iterable[Metric]:
        active = GaugeMetricFamily(
            "http_server_active_requests",
            "Number of active HTTP server requests.",
            labels=["http_request_method", "url_scheme"],
        )
        for (scheme, method), number in list(self._active.items()):
            active.add_metric([method, scheme], float(number))
        yield active
        names = "http_request_method", "url_scheme", "network_protocol_version", "http_route"
        durations = HistogramMetricFamily(
            "http_server_request_duration_seconds",
            "Duration of HTTP server requests.",
            labels=[*names, "http_response_status_code", "error_type"],
        )
        for (scheme, method, version, route, status), counts in list(self._durations.items()):
            error = LEFT if not status else str(status) if status >= 500 else ""
            buckets, before = [], 0.0
            for bound, count in zip(BOUNDS, counts[:-1], strict=True):
                before += count
                buckets.append((bound, before))
            labels = [method, scheme, version, route, str(status or ""), error]
            durations.add_metric(labels, buckets, counts[-1])
        yield durations


class Telemetry:
    """The metrics of a service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.http = HttpMetrics()
        self.registry.register(self.http)

    def text(self, sees: Callable[[str], bool] | None = None) -> bytes:
        """Returns all metrics in Prometheus' FORMAT, without samples of owners that `sees` refuses."""
        return generate_latest(self.registry if sees is None else _Seen(self.registry, sees))


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


def disks(folders: Mapping[str, Path]) -> Iterable[Metric]:
    """Yields the metrics of these folders' file systems by our names; a missing folder counts as its parent."""
    free = GaugeMetricFamily("dragoman_disk_free_bytes", "Free on the file system of a folder", labels=["folder"])
    size = GaugeMetricFamily("dragoman_disk_size_bytes", "Size of the file system of a folder", labels=["folder"])
    for name, folder in folders.items():
        existing = next((path for path in (folder.absolute(), *folder.absolute().parents) if path.exists()), None)
        if existing is not None:
            usage = shutil.disk_usage(existing)
            free.add_metric([name], usage.free)
            size.add_metric([name], usage.total)
    yield free
    yield size
