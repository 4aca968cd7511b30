"""Fair shares of owners: the part of the cluster that their jobs hold, and that they have held recently.

The larger part of CPUs and GPUs counts (dominant resource fairness, Ghodsi et al. 2011), divided by the owner's weight.
Past use counts half as much after every half-life.
"""

from collections.abc import Iterable, Mapping

from dragoman.services.jobs.scheduling.entries import Capacity, Entry, Rules
from dragoman.services.jobs.scheduling.room import TINY

DIGITS = 3  # of a share: owners with a smaller difference are ordered by age


class Shares:
    """The owners' shares within a pass; they grow as the pass starts jobs."""

    def __init__(self, rules: Rules, capacity: Capacity, jobs: Iterable[Entry]) -> None:
        self._sizes = sum(node.cpus for node in capacity.nodes), sum(node.gpus for node in capacity.nodes)
        self._rules = rules
        self._held: dict[str, list[float]] = {}  # owner -> CPUs and GPUs
        for job in jobs:
            held = self._held.setdefault(job.owner, [0.0, 0.0])
            for kind, amount in enumerate(job.needs.total(job.workers)):
                held[kind] += amount
        self._whole = sum(map(self._weight, self._held))
        self._known: dict[str, tuple[bool, float]] = {}

    def start(self, owner: str, cpus: float, gpus: float) -> None:
        """Counts resources that a job gets in this pass."""
        self._held[owner][0] += cpus
        self._held[owner][1] += gpus
        self._known.pop(owner, None)

    def exceeded(self, owner: str) -> bool:
        """Returns True if an owner holds a fair share of the cluster, or more, while others have jobs too."""
        return self._look_up(owner)[0]

    def of(self, owner: str) -> float:
        """Returns what an owner holds and has held recently, as a part of the cluster."""
        return self._look_up(owner)[1]

    def _look_up(self, owner: str) -> tuple[bool, float]:
        if owner not in self._known:
            fair = self._weight(owner) / self._whole
            exceeded = fair < 1.0 - TINY and self._part(self._held[owner]) >= fair - TINY
            used = self._rules.used.get(owner, (0.0, 0.0))
            both = [now + before for now, before in zip(self._held[owner], used, strict=True)]
            self._known[owner] = exceeded, round(self._part(both) / self._weight(owner), DIGITS)
        return self._known[owner]

    def _weight(self, owner: str) -> float:
        return self._rules.weights.get(owner, 1.0)

    def _part(self, amounts: Iterable[float]) -> float:
        return max((amount / size for amount, size in zip(amounts, self._sizes, strict=True) if size > 0), default=0.0)


class Usage:
    """CPUs and GPUs that the owners' attempts have held, as decaying averages."""

    def __init__(self, half_life: float) -> None:
        """`half_life` in seconds."""
        self.half_life = half_life
        self._held: dict[str, tuple[float, float, float]] = {}  # owner -> CPUs, GPUs, and the time of these values

    def charge(self, owner: str, cpus: float, gpus: float, started: float, ended: float) -> None:
        """Adds an attempt that held so much from `started` to `ended`."""
        before = self._held.get(owner)
        at = ended if before is None else max(ended, before[2])
        amount = self._ended(owner, at)
        part = self._left(at - ended) - self._left(at - min(started, ended))
        self._held[owner] = (amount[0] + cpus * part, amount[1] + gpus * part, at)

    def held(self, active: Iterable[Entry], now: float) -> Mapping[str, tuple[float, float]]:
        """Returns what each owner has held recently, with the `active` jobs so far."""
        held = {owner: self._ended(owner, now) for owner in self._held}
        for job in active:
            part = 1.0 - self._left(now - job.started)
            cpus, gpus = job.needs.total(job.workers)
            before = held.get(job.owner, (0.0, 0.0))
            held[job.owner] = before[0] + part * cpus, before[1] + part * gpus
        return held

    def _ended(self, owner: str, now: float) -> tuple[float, float]:
        cpus, gpus, at = self._held.get(owner, (0.0, 0.0, now))
        left = self._left(now - at)
        return cpus * left, gpus * left

    def _left(self, seconds: float) -> float:
        return float(2.0 ** (-max(0.0, seconds) / self.half_life))
