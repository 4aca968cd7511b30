"""The resources of a cluster and the free part: nodes, and workers packed on them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TINY = 1e-9  # CPUs and GPUs may be fractions


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, and the resources that jobs may use on it."""

    name: str
    cpus: float
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Needs:
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
        other = FreeResources(())
        other.free = [list(free) for free in self.free]
        return other

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

    def take(self, needs: Needs, workers: int) -> list[tuple[int, float, float]]:
        """Places as many of the workers as fit; returns (node, CPUs, GPUs) of each, for `give`."""
        placed = []
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

    def hold(self, needs: Needs, workers: int) -> list[tuple[int, float, float]]:
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

    @property
    def cpus(self) -> float:
        return sum(free[0] for free in self.free)

    @property
    def gpus(self) -> float:
        return sum(free[1] for free in self.free)
