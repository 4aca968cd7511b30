"""Messages between a command and the first rank of a group of workers, which may be on another node."""

import secrets
from collections.abc import Mapping
from typing import Any

import ray
from ray import train
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

LinkError = ray.exceptions.RayError  # a call of a link has failed
Piece = tuple[int, bytes]  # new bytes of a file, and where they begin


class Messages:
    """Keeps what both sides leave for each other."""

    def __init__(self) -> None:
        self._request: str | None = None
        self._pause = False
        self._pieces: list[tuple[str, Piece]] = []
        self._leaving: int | None = None

    def exchange(self, pieces: Mapping[str, Piece], leaving: int) -> tuple[str | None, bool]:
        """Called by the first rank: leaves new bytes of files by name, and the number of workers about to lose their
        node; returns the request to the run, and True if it must pause."""
        self._pieces += pieces.items()
        self._leaving = max(self._leaving or 0, leaving)
        return self._request, self._pause

    def take(self, request: str | None, pause: bool) -> tuple[list[tuple[str, Piece]], int | None]:
        """Called by the command: the other way round; the number is None before the first rank trains."""
        self._request, self._pause = request, pause
        pieces, self._pieces = self._pieces, []
        return pieces, self._leaving


class Link:
    """Messages in an actor on this node, one for each group; it ends with the last process that has a handle."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._actor = ray.remote(num_cpus=0)(Messages).options(scheduling_strategy=here, max_concurrency=1).remote()

    def exchange(self, *words: Any) -> Any:
        return ray.get(self._actor.exchange.remote(*words))

    def take(self, *words: Any) -> Any:
        return ray.get(self._actor.take.remote(*words))


def count_leaving() -> int:
    """Returns the number of workers about to lose their node. All workers are asked together, so each must call it."""
    notice = train.get_preemption_info()
    return 0 if notice is None else len(notice.preempted_ranks)
