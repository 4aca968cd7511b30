"""Runs a training on a group of workers of Ray: asks for resources, starts the group again after a failure."""

import contextlib
import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from dragoman.model.device import KERNELS, pick_device, use_cores
from dragoman.model.errors import ServiceError, UserError, is_infrastructure, reason
from dragoman.pipelines.cluster import actors
from dragoman.pipelines.cluster.map import connect_ray
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.settings import ClusterConfig

if TYPE_CHECKING:
    from dragoman.pipelines.cluster.link import Link  # Ray Train is loaded when it is used

Argument = TypeVar("Argument")
Result = TypeVar("Result")
SAID_AFTER = 5.0  # seconds without room for the workers until that is reported
ASKS = 2.0  # seconds in which Ray Train has asked for its workers (0.3 on an idle machine)
ROOM_TRY = 1.0  # seconds that a group of one size waits for room if another size may find it
logger = logging.getLogger(__name__)


def fit(
    function: Callable[..., bool],
    argument: Argument,
    config: ClusterConfig,
    storage: Path,
    name: str,
    sizes: tuple[int, ...] = (),
    follow: "Callable[[Link, int, Callable[[int], bool]], AbstractContextManager[None]] | None" = None,
) -> None:
    """Runs `function(argument, ranks)` on `config.workers` processes that form one torch process group.

    Of a range of workers it runs as many as there is room for, one of `sizes`; on a cluster that outlives us, as many
    as there is room for at any time. On that one `follow(link, size, room_for)` is the command's side of each group
    meanwhile, and the function takes the same `link`.

    A worker that dies ends its group, and a group starts again, `config.max_failures` times; the function must resume
    from its own checkpoints. On the first rank it returns True if a group of another size must follow. `storage` is for
    Ray's own state, which nobody needs afterwards: every group is a new Ray run, because our state is in the run
    directory.

    A thread asks Ray for the group, so that signal handlers run here at once. An exception from a handler ends the
    workers.

    Raises UserError: the cluster is too small or stays too busy, or a worker met a mistake of the user. Raises
    RuntimeError: the workers died more often than allowed.
    """
    with connect_ray(config):
        sizes = sizes or (config.most,)
        use_gpu = config.device == "cuda" or (config.device == "auto" and _gpus() >= sizes[0] * config.gpus_per_worker)
        per_worker = {"CPU": config.cpus_per_worker} | ({"GPU": config.gpus_per_worker} if use_gpu else {})
        device = "cuda" if use_gpu else "cpu"
        backend = KERNELS[device].ddp_backend

        def group(attempt: int) -> bool:
            size = _find_room(sizes, per_worker, config.start_timeout)
            run = functools.partial(_run_rank, function, argument, device, most_threads(config))
            if config.address is None and not use_gpu:
                return actors.run_group(run, size, config.cpus_per_worker, backend, config.silence)
            from dragoman.pipelines.cluster import train_group  # loads Ray Train

            followed: AbstractContextManager[None] = contextlib.nullcontext()
            if follow is not None and config.address is not None:
                from dragoman.pipelines.cluster.link import Link

                link = Link()
                followed = follow(link, size, functools.partial(_has_room, per_worker))
                run = functools.partial(run, link=link)
            unique = f"{name}-{int(time.time())}-{attempt}"
            fit_group = train_group.prepare(run, size, per_worker, backend, config, storage, unique)
            with followed:
                return _in_thread(fit_group)

        run_groups(group, config.max_failures)


def run_groups(group: Callable[[int], bool], max_failures: int) -> None:
    """Runs `group` with 0, 1, ... until it returns that no other must follow; after a failed one another follows.

    Each is a Ray run of its own, because it may have another size, and waits for room as the first did.
    Raises RuntimeError after `max_failures`, ServiceError if a disk or a server failed the last one.
    """
    failures = 0
    for attempt in itertools.count():
        try:
            if not group(attempt):
                return
        except actors.GroupFailedError as problem:
            for cause in problem.causes:
                if isinstance(cause, UserError):
                    raise UserError(str(cause)) from None
            failures += 1
            if failures > max_failures:
                outside = any(isinstance(cause, Exception) and is_infrastructure(cause) for cause in problem.causes)
                failed = ServiceError if outside else RuntimeError
                raise failed(f"training failed on the workers: {problem}") from problem
            raised = next((cause for cause in problem.causes if isinstance(cause, Exception)), problem)
            times = f"{failures} of {max_failures} times"
            logger.warning(f"the workers have failed and are started again ({times}): {reason(raised)}")


def _find_room(sizes: tuple[int, ...], per_worker: dict[str, float], within: float) -> int:
    """Returns the largest of these numbers of workers that fits; if there are several, it waits for lost nodes."""
    import ray

    group = f"{sizes[0]} workers with {', '.join(f'{n:g} {key}' for key, n in per_worker.items())} each"
    began = time.monotonic()
    said = False
    while True:
        total = ray.cluster_resources()
        fitting = [size for size in sizes if all(total.get(key, 0.0) >= size * n for key, n in per_worker.items())]
        for size in reversed(fitting):
            if _has_room(per_worker, size, SAID_AFTER if size == sizes[0] else ROOM_TRY):
                return size
        if not fitting:
            time.sleep(ROOM_TRY)
            began = time.monotonic() if len(sizes) > 1 else began
        waited = time.monotonic() - began
        if waited >= within:
            raise ServiceError(
                f"cluster.start_timeout={within:g}: in so many seconds there was no room for {group}; {_free()}. "
                f"Wait for what runs there, give it longer, or ask for fewer workers"
            )
        if not said and waited >= SAID_AFTER:
            logger.info(f"waiting for room for {group}; {_free()}")
            said = True


def _has_room(per_worker: dict[str, float], workers: int, patience: float = ROOM_TRY) -> bool:
    """Returns True if so many workers could start in `patience` seconds, beside others and on nodes that stay."""
    from ray.util import placement_group, remove_placement_group

    group = placement_group([per_worker] * workers)
    try:
        return bool(group.wait(patience))
    finally:
        remove_placement_group(group)


def _in_thread(function: Callable[[], Result]) -> Result:
    """Returns the result of `function`, run in a thread; the main thread receives signals meanwhile.

    An exception from a handler waits for a thread that still asks for its workers: a call that meets Ray's shutdown
    ends the process. Afterwards the thread only waits for Ray Train, whose shutdown ends that wait.
    """
    end: Future[Result] = Future()

    def run() -> None:
        try:
            end.set_result(function())
        except BaseException as problem:  # of any kind: it belongs to the waiting thread
            end.set_exception(problem)

    thread = threading.Thread(target=run, name="ray-driver", daemon=True)
    try:
        thread.start()
        return end.result()
    finally:
        thread.join(ASKS)


def _free() -> str:
    """Returns the free resources of the cluster as text."""
    import ray

    free, total = ray.available_resources(), ray.cluster_resources()
    parts = [f"{free.get(key, 0):g} of {total[key]:g} {key}s" for key in ("CPU", "GPU") if key in total]
    return f"free in the cluster: {', '.join(parts)}"


def most_threads(config: ClusterConfig) -> int:
    """Returns the threads of a worker; 0: its share of all cores of its machine.

    A cluster is shared: two jobs whose threads wait for the same cores are several times slower than in turns.
    """
    return 0 if config.address is None else max(1, int(config.cpus_per_worker))


def _gpus() -> float:
    import ray

    return float(ray.cluster_resources().get("GPU", 0.0))


def _run_rank(
    function: Callable[..., bool], argument: Argument, device: str, threads: int, place: actors.Place, **link: "Link"
) -> bool:
    """Runs one training process: takes its device and cores, then calls the function."""
    from dragoman.model.confinement import confine_worker  # what a worker needs, not the command

    confine_worker()
    chosen = pick_device(device, place.local_rank)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    use_cores(place.local_size, threads)
    return function(argument, Ranks(place.rank, place.size, chosen), **link)
