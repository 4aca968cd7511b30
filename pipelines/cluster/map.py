"""Connects to Ray, and runs tasks over it with an occasional line of progress; loads neither it nor torch before."""

import contextlib
import functools
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dragoman.model.errors import ServiceError, UserError
from dragoman.pipelines.cluster import embedded_ray
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
    needs = replace(cluster, device="cpu")  # sharding needs no GPU
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
    keep: Callable[[Any], Any] = lambda result: result,
) -> list[Any]:
    """Returns the results of all tasks, as they come; `keep` turns each returned value into the result, here."""
    results: list[Any] = []
    said = time.monotonic()
    for result in map_tasks(function, tasks, cluster):
        results.append(keep(result))
        if time.monotonic() - said >= PROGRESS_SECONDS:
            said = time.monotonic()
            logger.info(f"{label}: {len(results):,} of {len(tasks):,}")
    return results


def map_tasks(
    function: Callable[[Any], Result], arguments: Sequence[Argument], config: ClusterConfig
) -> Iterator[Result]:
    """Yields `function` of each argument as results come, at most `config.most` at a time, in any order.

    The functions must be pure and top-level: they run in other processes, and again elsewhere if a node is lost. A
    task's own exception is raised here unchanged.
    """
    if config.backend == "local" or (config.most <= 1 and config.address is None):
        yield from (function(argument) for argument in arguments)
        return
    with connect_ray(config):
        import ray

        task = ray.remote(num_cpus=config.cpus_per_worker, max_retries=config.max_failures)(_as_task(function))
        waiting = list(reversed(arguments))
        running: list[Any] = []
        while waiting or running:
            while waiting and len(running) < config.most:
                running.append(task.remote(waiting.pop()))
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
        from dragoman.model.confinement import confine_worker  # what a worker needs, not the command

        confine_worker()
        return function(argument)

    return call


@contextlib.contextmanager
def connect_ray(config: ClusterConfig) -> Iterator[None]:
    """Connects to Ray, embedded or at `config.address`, within the block; an existing connection stays."""
    embedded_ray.quiet_environment()
    if is_connected() and not embedded_ray.is_begun():
        check_capacity(config)
        yield
        return
    if config.address is None:
        logger.info("starting Ray")
        with embedded_ray.start_ray(config):
            check_capacity(config)
            yield
        return
    logger.info(f"connecting to Ray at {config.address}")
    import ray

    try:
        start = functools.partial(ray.init, config.address, logging_level=logging.ERROR, log_to_driver=False)
        embedded_ray.undisturbed(start, "Ray answers")
    except (ConnectionError, TimeoutError) as problem:
        raise ServiceError(f"cluster.address: no Ray cluster answers at {config.address!r} ({problem})") from problem
    except ray.exceptions.AuthenticationError as problem:
        raise UserError(
            f"cluster.address: the Ray cluster at {config.address!r} refuses us. Its token is expected in the variable "
            f"RAY_AUTH_TOKEN or in the file that RAY_AUTH_TOKEN_PATH names"
        ) from problem
    try:
        check_capacity(config)
        yield
    finally:
        embedded_ray.undisturbed(ray.shutdown, "Ray has let go")


@contextlib.contextmanager
def connect(config: ClusterConfig) -> Iterator[ClusterConfig]:
    """Connects to Ray within the block, if `config.backend` is not local; yields the settings with the backend in use.

    Where the backend is auto, this process replaces a Ray of our own that does not start.

    Raises UserError, StartError: as `connect_ray`.
    """
    with contextlib.ExitStack() as stack:
        try:
            if config.backend != "local":
                stack.enter_context(connect_ray(config))
        except embedded_ray.StartError as problem:
            if config.backend == "ray":
                raise
            logger.warning(
                f"{problem}. Continues without Ray, in this process on all cores; a training keeps its lanes, so it "
                f"sees the same batches. cluster.backend=ray makes this an error"
            )
            config = replace(config, backend="local")
        yield config


def is_connected() -> bool:
    """Returns True if this process is connected to a Ray, without importing it."""
    return "ray" in sys.modules and sys.modules["ray"].is_initialized()


def check_capacity(config: ClusterConfig) -> None:
    """Refuses at once a request that would otherwise wait forever."""
    import ray

    total = ray.cluster_resources()
    for resource in ("GPU", "CPU") if config.device == "cuda" else ("CPU",):
        embedded_ray.check_room(config, resource, total.get(resource, 0.0))
