"""Runs a group of training workers on this machine's own Ray: an actor per rank, and nothing else.

Ray Train starts five more processes for a group: its controller, the room of the group, the autoscaler, reports and
datasets. Each imports Ray Train for seconds. They serve machines that come and go, which a private Ray does not have.
"""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dragoman.pipelines.cluster import meeting

MEETING_TIMEOUT = 1800.0  # seconds for a collective operation, as in Ray Train


@dataclass(frozen=True)
class Place:
    """A worker's place in its group, and among the group's workers on its machine."""

    rank: int
    size: int
    local_rank: int
    local_size: int


class GroupFailedError(Exception):
    """A group of workers has ended early; `causes`: what its workers raised, if they did."""

    def __init__(self, message: str, causes: Collection[object]) -> None:
        super().__init__(message)
        self.causes = causes


class Worker:
    """A rank's process. It answers `ping` while it trains."""

    def listen(self) -> tuple[str, int]:
        return meeting.listen()

    def train(self, function: Callable[[Place], bool], place: Place, backend: str, host: str, port: int) -> bool:
        meeting.join(place.rank, place.size, backend, MEETING_TIMEOUT, host, port)
        return function(place)

    def ping(self) -> None:
        pass


def run_group(function: Callable[[Place], bool], size: int, cpus: float, backend: str, silence: float) -> bool:
    """Runs `function` on `size` workers; returns its value on the first. The first failure ends all of them.

    A thread asks Ray, so that signal handlers run here at once. It ends before this does, whatever ends this: a call
    that meets Ray's shutdown ends the process.

    Args:
        function: the work of a place.
        size: the number of workers.
        cpus: reserved for each.
        backend: torch's, for messages between the workers.
        silence: the seconds in which a worker must answer.
    """
    import ray

    start = ray.remote(num_cpus=cpus, max_concurrency=2)(Worker)
    workers: list[Any] = [start.remote() for _ in range(size)]
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(_lead, workers, function, backend, silence).result()
        finally:
            for worker in workers:
                ray.kill(worker)


def _lead(workers: list[Any], function: Callable[[Place], bool], backend: str, silence: float) -> bool:
    """Lets the workers meet and run `function`; raises GroupFailedError at the first failure."""
    import ray

    size = len(workers)
    try:
        meet = (backend, *ray.get(workers[0].listen.remote()))
        places = [Place(rank, size, rank, size) for rank in range(size)]
        runs = [worker.train.remote(function, place, *meet) for worker, place in zip(workers, places, strict=True)]
        waiting = runs
        while waiting:
            done, waiting = ray.wait(waiting, timeout=silence / 2)
            ray.get(done)
            ray.get([worker.ping.remote() for worker in workers], timeout=silence)
        return bool(ray.get(runs[0]))
    except ray.exceptions.RayError as problem:
        raise GroupFailedError(str(problem), [getattr(problem, "cause", None)]) from problem
