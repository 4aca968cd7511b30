"""The endpoint's metrics: queue, batches, refusals, the current model. No label comes from a user."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dragoman.model.inference.losses import KINDS as LOSSES
from dragoman.model.inference.losses import Losses
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.catalogue import Catalogue
from dragoman.services.models.served import Served
from dragoman.services.telemetry.disk import disks
from dragoman.services.telemetry.telemetry import Telemetry

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
NOT_KEPT = ("placeholders", "tags", "terms", "words")
Queue: TypeAlias = InferenceQueue[Any, Any, Any]
NOT_REFUSALS = frozenset({"/health", "/status", "/metrics"})  # a 503 here is an answer, not a refusal


class Metrics:
    """The endpoint's own metrics, in the registry of `telemetry`."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self.telemetry = telemetry or Telemetry("dragoman-endpoint")
        registry = self.telemetry.registry

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"dragoman_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: Sequence[float] = SECONDS) -> Histogram:
            return Histogram(f"dragoman_{name}", about, ["kind"], buckets=buckets, registry=registry)

        self.wait = histogram("queue_wait_seconds", "How long the first line of a request waited until it was taken up")
        self.batch = histogram("batch_lines", "Lines of a batch", LINES)
        self.decode = histogram("decode_seconds", "Time of a batch")
        self.characters = {"in": 0, "out": 0}  # of translated texts
        registry.register(_Characters(self.characters))
        losses = "Sentences that were cut, that have unknown words or whose translation repeats itself"
        self.lost = counter("lost_sentences_total", losses, "what")
        self.not_kept = counter("not_kept_total", "What translations lack of what must not change", "what")
        self.refused = counter("refused_total", "Requests that were not answered", "reason")
        self.swaps = counter("model_swaps_total", "Versions that came to answer, or could not", "kind", "result")
        for what in LOST:
            self.lost.labels(what)
        for what in NOT_KEPT:
            self.not_kept.labels(what)
        for reason in sorted({*REASONS.values(), *BY_KEY.values()}):
            self.refused.labels(reason)

    def watch(self, kind: str) -> "ModelMetrics":
        """Returns the metrics for the batcher and the follower of one kind of model."""
        return ModelMetrics(self, kind)

    def show(self, queues: Mapping[str, Queue | None], cache: Path, models: Catalogue | None = None) -> None:
        """Registers values that are read at each fetch: the queues, the current models and the disk."""
        state = _State({kind: queue for kind, queue in queues.items() if queue}, cache, models)
        self.telemetry.registry.register(state)

    def lose(self, losses: Iterable[Losses], lost: Iterable[Mapping[str, int]] = ()) -> None:
        """Counts the losses of answers, of sentences and of what must not change; an answer of which a sentence failed
        counts as a refusal."""
        for kinds in lost:
            for what, number in kinds.items():
                self.not_kept.labels(what).inc(number)
        for loss in losses:
            for what, number in loss.counts().items():
                if number and what in LOST:
                    self.lost.labels(what).inc(number)

    def refuse(self, status: int, key: str | None = None) -> None:
        """Counts a request that was answered with an error; `key`: the reason why its key refused it."""
        reason = REASONS.get(status, "error" if status >= 500 else "invalid")
        self.refused.labels(BY_KEY.get(key or "", reason)).inc()


class ModelMetrics:
    """The metrics of one kind of model."""

    def __init__(self, metrics: Metrics, kind: str) -> None:
        self._wait, self._batch, self._decode = (
            metric.labels(kind) for metric in (metrics.wait, metrics.batch, metrics.decode)
        )
        self._swaps = {good: metrics.swaps.labels(kind, result) for good, result in ((True, "ok"), (False, "failed"))}

    def waited(self, seconds: float) -> None:
        """Records that a request was taken up."""
        self._wait.observe(seconds)

    def decoded(self, lines: int, seconds: float) -> None:
        """Records a finished batch."""
        self._batch.observe(lines)
        self._decode.observe(seconds)

    def swapped(self, good: bool) -> None:
        """Records that a version was swapped in, or failed."""
        self._swaps[good].inc()


@dataclass(eq=False)
class _Characters(Collector):
    """The characters that were counted, as a scrape reads them."""

    counts: Mapping[str, int]

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily("dragoman_characters", "Characters of texts translated", labels=["direction"])
        for direction, number in self.counts.items():
            family.add_metric([direction], number)
        yield family


class _State(Collector):
    """Values that are read when metrics are fetched."""

    def __init__(self, queues: Mapping[str, Queue], cache: Path, models: Catalogue | None) -> None:
        self.queues, self.cache, self.models = queues, cache, models

    def collect(self) -> Iterable[Metric]:
        lines = GaugeMetricFamily("dragoman_queue_lines", "Lines or questions that wait", labels=["kind"])
        model = GaugeMetricFamily("dragoman_model_info", "The model that answers", labels=["kind", "name", "version"])
        for kind, queue in self.queues.items():
            lines.add_metric([kind], queue.batcher.queued)
            several = self.models is not None and kind == "translation"
            facts = None if several else queue.facts()["model"]
            if facts is not None:
                model.add_metric([kind, str(facts["name"]), str(facts["version"])], 1)
        yield lines
        loaded = GaugeMetricFamily("dragoman_model_loaded", "1: the model is in memory", labels=["name", "version"])
        size = GaugeMetricFamily("dragoman_model_bytes", "Bytes of its weights", labels=["name", "version"])
        counter = CounterMetricFamily("dragoman_model_requests", "Requests to the model", labels=["name", "version"])
        by_version: dict[tuple[str, str], list[Served]] = {}  # two references may name one version
        for served in self.models.models if self.models else ():
            if served.card is not None:
                by_version.setdefault((served.card.origin.name, served.card.origin.version), []).append(served)
        for names, same in by_version.items():
            model.add_metric(["translation", *names], 1)
            loaded.add_metric(names, any(served.loaded for served in same))
            size.add_metric(names, max(served.card.bytes for served in same if served.card))
            counter.add_metric(names, sum(served.requests for served in same))
        yield from (model, loaded, size, counter)
        yield from disks({"cache": self.cache})
