"""The endpoint's metrics: queue, batches, refusals, the served models. No label comes from a user."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dragoman.model.inference.losses import KINDS as LOSSES
from dragoman.model.inference.losses import Losses
from dragoman.services.models.catalogue import Catalogue
from dragoman.services.telemetry import Telemetry, disks

if TYPE_CHECKING:
    from dragoman.services.endpoint.inference_queue import InferenceQueue

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LINES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
REASONS = {
    400: "invalid",
    403: "key",
    404: "unknown",
    405: "invalid",
    408: "slow",
    413: "too_large",
    429: "queue_full",
    500: "error",
    503: "unavailable",
}
BY_KEY = {"characters": "quota", "requests": "rate"}  # limits of a key, whatever status the dialect has for them
LOST = tuple(kind for kind in LOSSES if kind != "failed")


class Metrics:
    """The endpoint's own metrics, in the registry of `telemetry`; the batcher and the followers report to it."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        registry = self.telemetry.registry

        def counter(name: str, about: str, label: str) -> Counter:
            return Counter(f"dragoman_{name}", about, [label], registry=registry)

        def histogram(name: str, about: str, buckets: Sequence[float] = SECONDS) -> Histogram:
            return Histogram(f"dragoman_{name}", about, buckets=buckets, registry=registry)

        self.wait = histogram("queue_wait_seconds", "How long the first line of a request waited until it was taken up")
        self.batch = histogram("batch_lines", "Lines of a batch", LINES)
        self.decode = histogram("decode_seconds", "Time of a batch")
        self.characters = {"in": 0, "out": 0}  # of translated texts
        registry.register(_Characters(self.characters))
        losses = "Sentences that were cut, that have unknown words or whose translation repeats itself"
        self.lost = counter("lost_sentences_total", losses, "what")
        self.refused = counter("refused_total", "Requests that were not answered", "reason")
        self.swaps = counter("model_swaps_total", "Versions that came to answer, or could not", "result")
        for what in LOST:
            self.lost.labels(what)
        for result in ("ok", "failed"):
            self.swaps.labels(result)
        for reason in sorted({*REASONS.values(), *BY_KEY.values()}):
            self.refused.labels(reason)

    def show(self, queue: "InferenceQueue", models: Catalogue, cache: Path) -> None:
        """Registers values that are read at each fetch: the queue, the models and the disk."""
        self.telemetry.registry.register(_State(queue, models, cache))

    def waited(self, seconds: float) -> None:
        """Records that a request was taken up."""
        self.wait.observe(seconds)

    def decoded(self, lines: int, seconds: float) -> None:
        """Records a finished batch."""
        self.batch.observe(lines)
        self.decode.observe(seconds)

    def swapped(self, good: bool) -> None:
        """Records that a version was swapped in, or failed."""
        self.swaps.labels("ok" if good else "failed").inc()

    def lose(self, losses: Iterable[Losses]) -> None:
        """Counts the losses of an answer's sentences; an answer of which a sentence failed counts as a refusal."""
        for loss in losses:
            for what, number in loss.counts().items():
                if number and what in LOST:
                    self.lost.labels(what).inc(number)

    def refuse(self, status: int, key: str = "") -> None:
        """Counts a request that was answered with an error; `key`: the reason why its key refused it."""
        reason = REASONS.get(status, "error" if status >= 500 else "invalid")
        self.refused.labels(BY_KEY.get(key, reason)).inc()


@dataclass(eq=False)
class _Characters(Collector):
    """The characters that were counted, as a scrape reads them."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily("dragoman_characters", "Characters of texts translated", labels=["direction"])
        for direction, number in self.counts.items():
            family.add_metric([direction], number)
        yield family


@dataclass(eq=False)
class _State(Collector):
    """Values that are read when metrics are fetched."""

    queue: "InferenceQueue"
    models: Catalogue
    cache: Path

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("dragoman_queue_lines", "Lines that wait", value=self.queue.batcher.queued)
        names = ["name", "version"]
        model = GaugeMetricFamily("dragoman_model_info", "A model that answers", labels=names)
        size = GaugeMetricFamily("dragoman_model_bytes", "Bytes of its weights", labels=names)
        counter = CounterMetricFamily("dragoman_model_requests", "Requests to the model", labels=names)
        by_version: dict[tuple[str, str], tuple[int, int]] = {}  # two references may name one version
        for served in self.models.models:
            if served.card is not None:
                version = served.card.origin.name, served.card.origin.version
                before = by_version.get(version, (0, 0))
                by_version[version] = max(before[0], served.card.bytes), before[1] + served.requests
        for version, (weights, requests) in by_version.items():
            model.add_metric(version, 1)
            size.add_metric(version, weights)
            counter.add_metric(version, requests)
        yield from (model, size, counter)
        yield from disks({"cache": self.cache})
