"""The job service's metrics. No label grows with the number of jobs; a queue is a priority. Samples with the label
`owner` are shown to people who may see that owner.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.states import ACTIVE, PRIORITIES, PRIORITY_NAMES, State
from dragoman.services.telemetry import Telemetry, disks

WAITS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0)
PASSES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
RECOVERIES = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14_400.0)
# Shown from the start: Prometheus sees no increase in a series that begins with its first event.
CAUSES = ("end", "stop", "preemption", "shutdown", "signal", "mistake", "cluster", "vanished", "exit 1", "exit 137")
RESOURCES = ("cpu", "gpu", "jobs")  # of a quota


class Metrics:
    """The metrics in the registry of `telemetry`; the loop counts its own events."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        registry = self.telemetry.registry
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        self.waited = histogram("dragoman_job_wait_seconds", "From the queue to an attempt", buckets=WAITS)
        self.passes = histogram("dragoman_scheduler_pass_seconds", "Of deciding what starts", buckets=PASSES)
        self.attempts = counter("dragoman_attempts_total", "Attempts that ended, by what ended them", ["cause"])
        again = "From an attempt's end until the next one of its job runs"
        self.recovery = histogram("dragoman_recovery_seconds", again, ["cause"], buckets=RECOVERIES)
        for cause in CAUSES:
            self.attempts.labels(cause)
            self.recovery.labels(cause)


@dataclass(eq=False)
class LedgerMetrics(Collector):
    """The ledger's state, which is read whenever metrics are fetched."""

    ledger: Ledger
    access: Access
    cluster: Callable[[], Mapping[str, float] | None]  # what jobs may use, by resource; None: it does not answer
    home: Path

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: registering must not read the ledger."""
        return ()

    def collect(self) -> Iterable[Metric]:
        counts = dict.fromkeys(product(map(str, State), PRIORITIES), 0)
        query = select(Job.state, Job.priority, func.count()).group_by(Job.state, Job.priority)
        with self.ledger.database.read() as session:
            for state, priority, count in session.execute(query):
                key = (str(state), PRIORITY_NAMES.get(int(priority), "normal"))
                counts[key] = counts.get(key, 0) + int(count)
        yield _gauge("dragoman_jobs", "Jobs of the ledger", ["state", "queue"], counts.items())
        yield from self._quotas()
        size = self.cluster()
        yield GaugeMetricFamily("dragoman_cluster_up", "Whether the cluster answered", value=float(size is not None))
        amounts = {(resource,): amount for resource, amount in (size or {}).items()}
        yield _gauge("dragoman_cluster_capacity", "What jobs may use", ["resource"], amounts.items())
        yield from disks({"home": self.home})

    def _quotas(self) -> Iterable[Metric]:
        active, quotas = self.ledger.jobs(ACTIVE), self.access.quotas()
        owners = {job.owner for job in active} | quotas.keys()  # zeros are shown for one without running jobs
        used = dict.fromkeys(product(sorted(owners), RESOURCES), 0.0)
        for job in active:
            for resource, amount in zip(RESOURCES, (job.workers * job.cpus, job.workers * job.gpus, 1), strict=True):
                used[job.owner, resource] += amount
        most = {
            (owner, resource): limit
            for owner, row in quotas.items()
            for resource, limit in zip(RESOURCES, row, strict=True)
            if limit is not None
        }
        yield _gauge("dragoman_quota_used", "What owners' jobs hold", ["owner", "resource"], used.items())
        yield _gauge("dragoman_quota_limit", "What they may hold", ["owner", "resource"], most.items())


def _gauge(name: str, about: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family
