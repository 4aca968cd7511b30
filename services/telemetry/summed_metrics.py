"""The metrics of several processes as one: each leaves its own in a folder, and whoever is asked adds them up.

Counters and histograms of a process that has died stay in the sum, so that it never falls. Of what all processes have
alike (`ALIKE`) the largest is shown.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from dragoman.model.files import atomic_write

EVERY = 1.0  # seconds between two notes of a process's metrics
GONE = "gone.prom"  # the sum of processes that have died
ALIKE = (
    "dragoman_disk_",
    "dragoman_model_info",
    "dragoman_model_loaded",
    "dragoman_model_bytes",
    "process_start_time",
    "process_max_fds",
)
ADDED = ("counter", "histogram")
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SummedMetrics:
    """The metrics of the process at `place` and of its siblings."""

    folder: Path
    place: int

    def text(self, own: bytes) -> bytes:
        """Returns all processes' metrics, with this process's `own`, which is noted for the others."""
        self.note(own)
        return add_up([path.read_bytes() for path in sorted(self.folder.glob("*.prom"))])

    def note(self, own: bytes) -> None:
        """Leaves this process's metrics for the others."""
        atomic_write(self._file, own)

    def keep_noting(self, own: Callable[[], bytes], stop: threading.Event) -> None:
        """Notes the metrics every second until `stop`, on a thread."""

        def run() -> None:
            while not stop.wait(EVERY):
                self.note(own())

        threading.Thread(target=run, name="metrics", daemon=True).start()

    def retire(self) -> None:
        """Adds what a dead process counted to the sum of the dead."""
        if not self._file.is_file():
            return
        gone = self.folder / GONE
        both = [path.read_bytes() for path in (gone, self._file) if path.is_file()]
        self._file.unlink()
        atomic_write(gone, add_up(both, counted=True))

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.place}.prom"


def add_up(texts: list[bytes], counted: bool = False) -> bytes:
    """Returns the sum of metrics in Prometheus' text format; `counted`: only of counters and histograms."""
    metrics: dict[str, Metric] = {}
    samples: dict[str, dict[tuple[str, Labels], float]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text.decode()):
            if counted and family.type not in ADDED:
                continue
            metrics.setdefault(family.name, family)
            values = samples.setdefault(family.name, {})
            alike = family.name.startswith(ALIKE)
            for one in family.samples:
                key = (one.name, tuple(sorted(one.labels.items())))
                before = values.get(key, 0.0)
                values[key] = max(before, one.value) if alike or one.name.endswith("_created") else before + one.value
    for name, family in metrics.items():
        family.samples = []
        for (sample, labels), value in samples[name].items():
            family.add_sample(sample, dict(labels), value)
    registry = CollectorRegistry()
    registry.register(_Fixed(list(metrics.values())))
    return generate_latest(registry)


@dataclass(eq=False)
class _Fixed(Collector):
    """Metrics that were collected before."""

    metrics: list[Metric]

    def collect(self) -> Iterator[Metric]:
        yield from self.metrics
