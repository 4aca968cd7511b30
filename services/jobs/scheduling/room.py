"""The resources of a cluster and the free part: nodes, and workers packed on them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TINY = 1e-9  # CPUs and GPUs may be fractions
MANY = 1 << 30  # workers
Placed = list[tuple[int, float, float]]  # (node, CPUs, GPUs) of each worker


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, and the resources that jobs may use on it."""

    name: str
    cpus: float
    gpus: float = 0.0


class Needs(NamedTuple):
    """The needs of one worker, and the possible numbers of workers of a job, smallest first."""

    choices: tuple[int, ...]
    cpus: float
    gpus: float = 0.0

    def total(self, workers: int) -> tuple[float, float]:
        """Returns the CPUs and GPUs of so many workers."""
        return workers * self.cpus, workers * self.gpus


class FreeResources:
    """The free resources of some nodes. Workers go where they leave least behind; deterministic."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.free = [[node.cpus, node.gpus] for node in nodes]

    def copy(self) -> "FreeResources":
        return FreeResources.of(*self.free)

    @staticmethod
    def of(*free: Sequence[float]) -> "FreeResources":
        """Returns nodes with so many CPUs and GPUs each."""
        resources = FreeResources(())
        resources.free = [list(amounts) for amounts in free]
        return resources

    def holds(self, cpus: float, gpus: float, most: int) -> int:
        """Returns how many workers of this size fit, counted up to `most`."""
        count = 0
        for free_cpus, free_gpus in self.free:
            fits = most
            if cpus > 0:
                fits = min(fits, int((free_cpus + TINY) / cpus))
            if gpus > 0:
                fits = min(fits, int((free_gpus + TINY) / gpus))
            count += max(0, fits)
            if count >= most:
                return most
        return count

    def fits(self, needs: Needs) -> bool:
        """Returns True if a job with the smallest number of workers fits."""
        return self.holds(needs.cpus, needs.gpus, needs.choices[0]) >= needs.choices[0]

    def take(self, needs: Needs, workers: int) -> Placed:
        """Places as many of the workers as fit; returns (node, CPUs, GPUs) of each, for `give`."""
        placed: Placed = []
        cpus, gpus = needs.cpus - TINY, needs.gpus - TINY
        order = [
            (free[1], free[0], number) for number, free in enumerate(self.free) if free[0] >= cpus and free[1] >= gpus
        ]
        for _, _, number in sorted(order):
            free = self.free[number]
            while workers and free[0] + TINY >= needs.cpus and free[1] + TINY >= needs.gpus:
                free[0] -= needs.cpus
                free[1] -= needs.gpus
                placed.append((number, needs.cpus, needs.gpus))
                workers -= 1
        return placed

    def hold(self, needs: Needs, workers: int) -> Placed:
        """Counts all of a job's workers, which run or start now; returns their places for `give`.

        Their actual nodes are not known. If this packing has no node left for a worker that did find its place, its
        resources are in use nevertheless, so they are counted wherever something is free.
        """
        placed = self.take(needs, workers)
        if len(placed) == workers:
            return placed
        cpus, gpus = needs.total(workers - len(placed))
        for number in sorted(range(len(self.free)), key=lambda number: (self.free[number][1], -self.free[number][0])):
            free = self.free[number]
            part = min(cpus, free[0]), min(gpus, free[1])
            if max(part) > TINY:
                free[0], free[1] = free[0] - part[0], free[1] - part[1]
                cpus, gpus = cpus - part[0], gpus - part[1]
                placed.append((number, *part))
        return placed

    def give(self, placed: Sequence[tuple[int, float, float]]) -> None:
        """Releases what `take` or `hold` placed."""
        for number, cpus, gpus in placed:
            self.free[number][0] += cpus
            self.free[number][1] += gpus

    def claim(self, needs: Needs, after: "FreeResources", whole: "FreeResources") -> None:
        """Keeps room for a job that does not fit: on the nodes where its smallest number of workers fits soonest.

        What other jobs need beyond that stays free. `after`: what is free once the jobs that were asked to end have
        ended; `whole`: the empty cluster. Room kept on a node stays free until the job starts, so it fits one day,
        whatever comes after it.
        """
        after = after.copy()
        placed = after.take(needs, needs.choices[0])
        missing = needs.choices[0] - len(placed)
        free = after.free
        order = sorted(
            range(len(free)),
            key=lambda node: (-free[node][1] if needs.gpus else 0, -free[node][0], free[node][1], node),
        )
        for node in order:
            has = sum(place[0] == node for place in placed)
            possible = min(missing, FreeResources.of(whole.free[node]).holds(needs.cpus, needs.gpus, MANY) - has)
            if possible > 0:
                placed += [(node, needs.cpus, needs.gpus)] * possible
                missing -= possible
        for node, cpus, gpus in placed:
            self.free[node] = [max(0.0, self.free[node][0] - cpus), max(0.0, self.free[node][1] - gpus)]

    @property
    def cpus(self) -> float:
        return sum(free[0] for free in self.free)

    @property
    def gpus(self) -> float:
        return sum(free[1] for free in self.free)
