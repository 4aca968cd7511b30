"""The rest of the owners' quotas within a pass."""

from collections.abc import Mapping

from dragoman.services.jobs.scheduling.entries import Entry, Wait
from dragoman.services.jobs.scheduling.room import TINY, Needs
from dragoman.services.jobs.states import Quota

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
