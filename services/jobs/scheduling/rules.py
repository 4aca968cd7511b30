"""Settings of a pass: fair share between owners, patience, and how long nobody is asked to make room.

An owner's share is the part of the cluster that the owner's jobs hold now and have held lately on average, over the
owner's weight. What was held counts half as much after every half-life. Of CPUs and GPUs the larger part counts
(dominant resource fairness, Ghodsi et al. 2011).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from services.jobs.scheduling.entries import Capacity, Entry

DIGITS = 3  # of a share: owners that differ by less go by age


class Usage:
    """CPUs and GPUs that the owners' ended attempts held, as averages that decay."""

    def __init__(self, half_life: float) -> None:
        """`half_life` in seconds."""
        self.half_life = half_life
        self._held: dict[str, tuple[float, float, float]] = {}  # owner -> CPUs, GPUs, and when they are as that

    def copy(self) -> "Usage":
        other = Usage(self.half_life)
        other._held = dict(self._held)
        return other

    def charge(self, owner: str, cpus: float, gpus: float, started: float, ended: float) -> None:
        """Add an attempt that held so much from `started` to `ended`."""
        before = self._held.get(owner)
        at = ended if before is None else max(ended, before[2])
        found = self.held(owner, at)
        part = self._left(at - ended) - self._left(at - min(started, ended))
        self._held[owner] = (found[0] + cpus * part, found[1] + gpus * part, at)

    def held(self, owner: str, now: float) -> tuple[float, float]:
        """Return the CPUs and GPUs that an owner's ended attempts have held lately."""
        cpus, gpus, at = self._held.get(owner, (0.0, 0.0, now))
        left = self._left(now - at)
        return cpus * left, gpus * left

    def of_active(self, seconds: float) -> float:
        """Return the part of an average that something has which is held since so many seconds."""
        return 1.0 - self._left(seconds)

    def _left(self, seconds: float) -> float:
        return float(2.0 ** (-max(0.0, seconds) / self.half_life))


@dataclass(frozen=True)
class Rules:
    """Settings of the scheduler. Times in seconds."""

    usage: Usage | None = None  # None: no fair share, owners' jobs go by priority and age alone
    weights: Mapping[str, float] = field(default_factory=dict)  # owner -> parts of the cluster; 1 for others
    patience: float | None = None  # a job that has waited for so long goes first; None: never
    preempt_after: float = 0.0  # that a job runs beyond its start-up before it is asked to make room

    def copy(self) -> "Rules":
        """Return rules whose usage can be charged without changing this one's."""
        return self if self.usage is None else replace(self, usage=self.usage.copy())

    def charge(self, job: Entry, now: float) -> None:
        """Count what an active job has held, which ends now."""
        if self.usage is not None:
            self.usage.charge(job.owner, *job.needs.total(job.workers), job.started, now)


class Shares:
    """The owners' shares within a pass. They only grow: jobs are started, none end."""

    def __init__(self, rules: Rules, capacity: Capacity, active: Iterable[Entry], now: float) -> None:
        self._rules, self._now = rules, now
        self._sizes = sum(node.cpus for node in capacity.nodes), sum(node.gpus for node in capacity.nodes)
        self._amounts: dict[str, list[float]] = {}
        self._known: dict[str, float] = {}
        if rules.usage is not None:
            for job in active:
                factor = 1.0 + rules.usage.of_active(now - job.started)
                self._add(job.owner, *(factor * amount for amount in job.needs.total(job.workers)))

    def of(self, owner: str) -> float:
        """Return an owner's share; 0 for everybody without fair share."""
        if self._rules.usage is None:
            return 0.0
        if owner not in self._known:
            amounts = self._of(owner)
            parts = (amount / size for amount, size in zip(amounts, self._sizes, strict=True) if size > 0)
            self._known[owner] = round(max(parts, default=0.0) / self._rules.weights.get(owner, 1.0), DIGITS)
        return self._known[owner]

    def start(self, job: Entry, workers: int) -> None:
        """Count a job that this pass starts."""
        if self._rules.usage is not None:
            self._add(job.owner, *job.needs.total(workers))

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
