"""Settings of a pass: fair share between owners, patience, and the protection of running jobs from preemption.

An owner's share is the part of the cluster that the owner's jobs hold now and have held recently on average, divided by
the owner's weight. Past use counts half as much after every half-life. The larger part of CPUs and GPUs counts
(dominant resource fairness, Ghodsi et al. 2011).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dragoman.services.jobs.scheduling.entries import Capacity, Entry

DIGITS = 3  # of a share: owners with a smaller difference are ordered by age


class Usage:
    """CPUs and GPUs that the owners' ended attempts held, as decaying averages."""

    def __init__(self, half_life: float) -> None:
        """`half_life` in seconds."""
        self.half_life = half_life
        self._held: dict[str, tuple[float, float, float]] = {}  # owner -> CPUs, GPUs, and the time of these values

    def copy(self) -> "Usage":
        other = Usage(self.half_life)
        other._held = dict(self._held)
        return other

    def charge(self, owner: str, cpus: float, gpus: float, started: float, ended: float) -> None:
        """Adds an attempt that held so much from `started` to `ended`."""
        before = self._held.get(owner)
        at = ended if before is None else max(ended, before[2])
        amount = self.held(owner, at)
        part = self._left(at - ended) - self._left(at - min(started, ended))
        self._held[owner] = (amount[0] + cpus * part, amount[1] + gpus * part, at)

    def held(self, owner: str, now: float) -> tuple[float, float]:
        """Returns the CPUs and GPUs that an owner's ended attempts have held recently."""
        cpus, gpus, at = self._held.get(owner, (0.0, 0.0, now))
        left = self._left(now - at)
        return cpus * left, gpus * left

    def weigh_active(self, seconds: float) -> float:
        """Returns the part of a decaying average that something held for so many seconds contributes."""
        return 1.0 - self._left(seconds)

    def _left(self, seconds: float) -> float:
        return float(2.0 ** (-max(0.0, seconds) / self.half_life))


@dataclass(frozen=True)
class Rules:
    """Settings of the scheduler. Times are in seconds."""

    usage: Usage | None = None  # None: no fair share; only priority and age count
    weights: Mapping[str, float] = field(default_factory=dict)  # owner -> parts of the cluster; 1 for others
    patience: float | None = None  # a job that has waited this long goes first; None: never
    preempt_after: float = 0.0  # time that a job runs beyond its start-up before it is asked to yield

    def copy(self) -> "Rules":
        """Returns rules whose usage can be charged without changing these."""
        return self if self.usage is None else replace(self, usage=self.usage.copy())

    def charge(self, job: Entry, now: float) -> None:
        """Counts what an active job has held, which ends now."""
        if self.usage is not None:
            self.usage.charge(job.account, *job.needs.total(job.workers), job.started, now)


class Shares:
    """The owners' shares within a pass. They only grow: jobs start, none end."""

    def __init__(self, rules: Rules, capacity: Capacity, active: Iterable[Entry], now: float) -> None:
        self._rules, self._now = rules, now
        self._sizes = sum(node.cpus for node in capacity.nodes), sum(node.gpus for node in capacity.nodes)
        self._amounts: dict[str, list[float]] = {}
        self._known: dict[str, float] = {}
        if rules.usage is not None:
            for job in active:
                factor = 1.0 + rules.usage.weigh_active(now - job.started)
                self._add(job.account, *(factor * amount for amount in job.needs.total(job.workers)))

    def of(self, owner: str) -> float:
        """Returns an owner's share; 0 for all without fair share."""
        if self._rules.usage is None:
            return 0.0
        if owner not in self._known:
            amounts = self._of(owner)
            parts = (amount / size for amount, size in zip(amounts, self._sizes, strict=True) if size > 0)
            self._known[owner] = round(max(parts, default=0.0) / self._rules.weights.get(owner, 1.0), DIGITS)
        return self._known[owner]

    def start(self, job: Entry, workers: int) -> None:
        """Counts a job that this pass starts."""
        if self._rules.usage is not None:
            self._add(job.account, *job.needs.total(workers))

    def _add(self, owner: str, cpus: float, gpus: float) -> None:
        amounts = self._of(owner)
        amounts[0] += cpus
        amounts[1] += gpus
        self._known.pop(owner, None)

    def _of(self, owner: str) -> list[float]:
        if owner not in self._amounts:
            assert self._rules.usage is not None
            self._amounts[owner] = list(self._rules.usage.held(owner, self._now))
        return self._amounts[owner]
