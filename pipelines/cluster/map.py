"""Runs sharding's tasks, in parallel and with an occasional line of progress."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from dragoman.pipelines.cluster.ray_train import connect, map_tasks
from dragoman.pipelines.settings import ClusterConfig

Argument = TypeVar("Argument")
logger = logging.getLogger(__name__)

# With fewer lines the work is done before our own Ray would have started (about 6 s).
WORTH_RAY_LINES = 200_000
PROGRESS_SECONDS = 10.0


@contextlib.contextmanager
def workers(cluster: ClusterConfig, lines: int) -> Iterator[ClusterConfig]:
    """Yields the place of tasks, connected once for all stages: only this process for a small corpus."""
    if cluster.backend == "local" or (cluster.address is None and (cluster.most <= 1 or lines < WORTH_RAY_LINES)):
        yield here()
        return
    needs = dataclasses.replace(cluster, device="cpu")  # sharding needs no GPU
    with connect(needs) as place:
        yield place


def here() -> ClusterConfig:
    """Returns the settings for this process alone."""
    return ClusterConfig(backend="local", workers=1)


def all_of(
    label: str,
    function: Callable[[Any], Any],
    tasks: Sequence[Argument],
    cluster: ClusterConfig,
    load: Callable[[Argument], Any] = lambda task: task,
    keep: Callable[[Any], Any] = lambda result: result,
) -> list[Any]:
    """Returns the results of all tasks, as they come.

    `load` makes the function's argument from a task, in this process, when it is its turn; `keep` turns each returned
    value into the result, also in this process.
    """
    results: list[Any] = []
    said = time.monotonic()
    for result in map_tasks(function, tasks, cluster, load):
        results.append(keep(result))
        if time.monotonic() - said >= PROGRESS_SECONDS:
            said = time.monotonic()
            logger.info(f"{label}: {len(results):,} of {len(tasks):,}")
    return results
