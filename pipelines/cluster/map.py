"""Runs sharding's tasks, in parallel and with an occasional line of progress."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from dragoman.model.confinement import confine_worker
from dragoman.model.errors import UserError
from dragoman.model.usage.recorder import start_recorder
from dragoman.pipelines.cluster.connection import connect, connect_ray
from dragoman.pipelines.settings import ClusterConfig

Argument = TypeVar("Argument")
Result = TypeVar("Result")
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


def map_tasks(
    function: Callable[[Any], Result],
    arguments: Sequence[Argument],
    config: ClusterConfig,
    load: Callable[[Argument], Any] = lambda argument: argument,
) -> Iterator[Result]:
    """Yields `function` of each argument as results come, at most `config.most` at a time, in any order.

    The functions must be pure and top-level: they run in other processes, and again elsewhere if a node is lost. A
    task's own exception is raised here unchanged. `load` is called here when it is an argument's turn.
    """
    if config.backend == "local" or (config.most <= 1 and config.address is None):
        yield from (function(load(argument)) for argument in arguments)
        return
    with connect_ray(config):
        import ray

        task = ray.remote(num_cpus=config.cpus_per_worker, max_retries=config.max_failures)(_as_task(function))
        waiting = list(reversed(arguments))
        running: list[Any] = []
        while waiting or running:
            while waiting and len(running) < config.most:
                running.append(task.remote(load(waiting.pop())))
            done, running = ray.wait(running, num_returns=1)
            try:
                result = ray.get(done[0])
            except ray.exceptions.RayTaskError as problem:
                if isinstance(problem.cause, UserError | OSError):
                    raise problem.cause from None  # with its own message and errno, not a remote traceback
                raise problem.as_instanceof_cause() from None
            yield result


def _as_task(function: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """Returns a plain function, as Ray requires; its worker opens no more files than the job may."""

    def call(argument: Any) -> Result:
        start_recorder()  # a thread from before stays free to write the job's files
        confine_worker()
        return function(argument)

    return call
