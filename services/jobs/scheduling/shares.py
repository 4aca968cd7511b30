"""Fair shares of owners: the part of the cluster that their jobs hold, and that they have held recently.

The larger part of CPUs and GPUs counts (dominant resource fairness, Ghodsi et al. 2011), divided by the owner's weight.
Past use counts half as much after every half-life.
"""

from collections.abc import Iterable, Mapping

from dragoman.services.jobs.scheduling.entries import Capacity, Entry, Rules, Wait
from dragoman.services.jobs.scheduling.room import TINY, Needs
from dragoman.services.jobs.states import Quota

DIGITS = 3  # of a share: owners with a smaller difference are ordered by age


class Shares:
    """The owners' shares within a pass; they grow as the pass starts jobs."""

    def __init__(self, rules: Rules, capacity: Capacity, jobs: Iterable[Entry]) -> None:
        self._sizes = sum(node.cpus for node in capacity.nodes), sum(node.gpus for node in capacity.nodes)
        self._rules = rules
        self._held: dict[str, list[float]] = {}  # owner -> CPUs and GPUs
        for job in jobs:
            held = self._held.setdefault(job.owner, [0.0, 0.0])
            if job.workers:
                cpus, gpus = job.needs.total(job.workers)
                held[:] = held[0] + cpus, held[1] + gpus
        self._whole = sum(map(self._weight, self._held))
        self._known: dict[str, tuple[bool, float]] = {}

    def start(self, owner: str, cpus: float, gpus: float) -> None:
        """Counts resources that a job gets in this pass."""
        self._held[owner][0] += cpus
        self._held[owner][1] += gpus
        self._known.pop(owner, None)

    def exceeded(self, owner: str) -> bool:
        """Returns True if an owner holds a fair share of the cluster, or more, while others have jobs too."""
        return self.of(owner)[0]

    def of(self, owner: str) -> tuple[bool, float]:
        """Returns `exceeded`, and what an owner holds and has held recently, as a part of the cluster."""
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


NAMES = ("CPU", "GPU", "job")


class QuotasLeft:
    """The rest of each owner's quota.

    The first job of an owner that exceeds the rest keeps what there is of it, so that the owner's later jobs never
    delay it."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._left = {
            owner: [float("inf") if bound is None else float(bound) for bound in quota]
            for owner, quota in quotas.items()
        }
        self._whole = {owner: list(left) for owner, left in self._left.items()}
        self._kept: dict[str, str] = {}  # owner -> the job that the rest is kept for

    def take(self, owner: str, needs: Needs, workers: int, jobs: int = 1) -> None:
        """Counts the resources of a job, or of further workers (`jobs` 0)."""
        left = self._left.get(owner)
        if left is not None:
            for kind, amount in enumerate((*needs.total(workers), jobs)):
                left[kind] -= amount

    def lacks(self, job: Entry) -> Wait | None:
        """Returns why the rest of its owner's quota is not enough for a job; None if it is."""
        left = self._left.get(job.owner)
        if left is None:
            return None
        amounts = (*job.needs.total(job.needs.choices[0]), 1.0)
        short = next((kind for kind in range(3) if amounts[kind] > left[kind] + TINY), None)
        if short is None:
            return None
        free = max(0.0, left[short])
        if job.owner in self._kept:
            return Wait("held", NAMES[short], amounts[short], free, self._kept[job.owner])
        if any(amount > bound + TINY for amount, bound in zip(amounts, self._whole[job.owner], strict=True)):
            return Wait("quota", NAMES[short], amounts[short], free, job.owner)  # it holds up no others: never enough
        self._kept[job.owner] = job.id
        self._left[job.owner] = [max(0.0, rest - amount) for rest, amount in zip(left, amounts, strict=True)]
        return Wait("quota", NAMES[short], amounts[short], free, job.owner)

    def workers(self, job: Entry, most: int) -> int:
        """Returns how many further workers of a job the rest of the quota allows, up to `most`."""
        left = self._left.get(job.owner)
        if left is not None:
            for rest, each in zip(left, (job.needs.cpus, job.needs.gpus), strict=False):
                if each > 0 and rest < float("inf"):
                    most = min(most, int((rest + TINY) / each))
        return max(0, most)
