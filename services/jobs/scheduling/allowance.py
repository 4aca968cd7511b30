"""The rest of the quotas of accounts (owners or projects), and the part reserved for the first job that cannot start.

That job gets a reservation within the quota. Younger jobs of the same account start only if they end before it, or use
only what it leaves even then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dragoman.services.jobs.scheduling.entries import Entry, Wait
from dragoman.services.jobs.scheduling.room import TINY, Needs
from dragoman.services.jobs.states import Quota

NAMES = ("CPU", "GPU", "job")
NONE = (0.0, 0.0, 0.0)
ALL = 1 << 30  # workers, without a limit


@dataclass
class Kept:
    """A reservation within a quota."""

    job: str
    at: float  # when the owner's jobs will have released enough; -inf: nothing starts before it
    spare: list[float]  # CPUs, GPUs and jobs that it leaves then


class Allowances:
    """The quotas within a pass."""

    def __init__(self, quotas: Mapping[str, Quota], now: float) -> None:
        self._quotas, self._now = quotas, now
        self._used: dict[str, list[float]] = {}
        self.kept: dict[str, Kept] = {}  # by owner

    def hold(self, owner: str, needs: Needs, workers: int) -> None:
        """Counts a job's resources."""
        _add(self._used.setdefault(owner, [*NONE]), needs, workers)

    def start(self, job: Entry, workers: int) -> None:
        """Counts a job that this pass starts."""
        self.hold(job.account, job.needs, workers)
        kept = self.kept.get(job.account)
        if kept is not None and self._now + job.high > kept.at:
            _add(kept.spare, job.needs, workers, -1)

    def most(self, job: Entry) -> tuple[int, Wait | None]:
        """Returns the most workers with which a job can start, and the reason if there are none."""
        bounds = self._bounds(job.account)
        if bounds is None:
            return job.needs.choices[-1], None
        left, least = self._left(job.account, bounds), job.needs.choices[0]
        allowed, short = _fits(left, job.needs)
        if allowed < least:
            return 0, Wait("quota", NAMES[short], _total(job.needs, least)[short], max(0.0, left[short]), job.account)
        kept = self.kept.get(job.account)
        if kept is not None and kept.job != job.id and self._now + job.high > kept.at:
            both = [min(pair) for pair in zip(left, kept.spare, strict=True)]
            allowed, short = _fits(both, job.needs)
            if allowed < least:
                return 0, Wait("held", NAMES[short], _total(job.needs, least)[short], max(0.0, left[short]), kept.job)
        return min(allowed, job.needs.choices[-1]), None

    def possible(self, job: Entry) -> bool:
        """Returns True if the whole quota is enough for a job."""
        bounds = self._bounds(job.account)
        return bounds is None or _fits(list(bounds), job.needs)[0] >= job.needs.choices[0]

    def open(self, owner: str) -> bool:
        """Returns True if the owner has a quota without a reservation."""
        return owner in self._quotas and owner not in self.kept

    def keep(
        self, job: Entry, until: float, strict: bool, leaving: Callable[[], Iterable[tuple[float, Entry]]]
    ) -> None:
        """Reserves a waiting job's needs in its owner's quota.

        Args:
            until: its earliest start if the quota is enough now: shorter jobs may use it before.
            strict: no job of the owner starts before it, however short.
            leaving: returns times and the jobs that will have ended by then, in order.
        """
        bounds = self._bounds(job.account)
        if bounds is None or not self.possible(job):
            return
        least, kept = job.needs.choices[0], self.kept.get(job.account)
        if kept is not None:  # the quota is reserved for another job of this owner; this one takes part of the rest
            _add(kept.spare, job.needs, least, -1)
            return
        left, at = self._left(job.account, bounds), until
        if _fits(left, job.needs)[0] < least:
            for moment, entry in leaving():
                if _fits(left, job.needs)[0] >= least:
                    break
                if entry.account == job.account:
                    _add(left, entry.needs, entry.workers)
                    at = moment
        _add(left, job.needs, least, -1)
        self.kept[job.account] = Kept(job.id, float("-inf") if strict else at, left)

    def _left(self, owner: str, bounds: Iterable[float]) -> list[float]:
        return [bound - taken for bound, taken in zip(bounds, self._used.get(owner, NONE), strict=True)]

    def _bounds(self, owner: str) -> tuple[float, ...] | None:
        quota = self._quotas.get(owner)
        return None if quota is None else tuple(float("inf") if bound is None else bound for bound in quota)


def _total(needs: Needs, workers: int) -> tuple[float, float, float]:
    """Returns the CPUs and GPUs of a job with so many workers, and 1 for itself."""
    return (*needs.total(workers), 1.0)


def _add(amounts: list[float], needs: Needs, workers: int, times: int = 1) -> None:
    for number, amount in enumerate(_total(needs, workers)):
        amounts[number] += times * amount


def _fits(left: list[float], needs: Needs) -> tuple[int, int]:
    """Returns for how many workers `left` is enough, and the limiting resource."""
    counts = [
        int((free + TINY) / each) if each > 0 and free < float("inf") else ALL
        for free, each in zip(left, (needs.cpus, needs.gpus), strict=False)
    ]
    counts.append(ALL if left[2] >= 1 else 0)
    return max(0, min(counts)), counts.index(min(counts))
