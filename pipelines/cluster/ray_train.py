"""The only door to Ray: connects, asks for resources, spreads tasks, runs a group of training workers."""

import contextlib
import functools
import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from dragoman.model.confinement import confine_worker
from dragoman.model.device import KERNELS, pick_device, use_cores
from dragoman.model.errors import ServiceError, UserError, is_infrastructure
from dragoman.model.usage.recorder import start_recorder
from dragoman.pipelines.cluster import actors, embedded_ray
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.settings import ClusterConfig

if TYPE_CHECKING:
    from dragoman.pipelines.cluster.bridge import Ends  # Ray Train is loaded when it is used

Argument = TypeVar("Argument")
Result = TypeVar("Result")
SAID_AFTER = 5.0  # seconds without room for the workers until that is reported
ROOM_TRY = 1.0  # seconds that a group of one size waits for room if another size may find it
logger = logging.getLogger(__name__)


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


def fit(
    function: Callable[[Argument, Ranks], bool],
    argument: Argument,
    config: ClusterConfig,
    storage: Path,
    name: str,
    sizes: tuple[int, ...] = (),
    ends: "Callable[[], Ends] | None" = None,
) -> None:
    """Runs `function(argument, ranks)` on `config.workers` processes that form one torch process group.

    Of a range of workers it runs as many as there is room for, one of `sizes`; on a cluster that outlives us, as many
    as there is room for at any time. `ends` connects that cluster with this machine meanwhile.

    A worker that dies ends its group, and a group starts again, `config.max_failures` times; the function must resume
    from its own checkpoints. On the first rank it returns True if a group of another size must follow. `storage` is for
    Ray's own state, which nobody needs afterwards: every group is a new Ray run, because our state is in the run
    directory.

    Ray's driver runs in a thread, so that signal handlers run here at once. An exception from a handler ends the
    workers.

    Raises UserError: the cluster is too small or stays too busy, or a worker met a mistake of the user. Raises
    RuntimeError: the workers died more often than allowed.
    """
    with connect_ray(config):
        sizes = sizes or (config.most,)
        use_gpu = config.device == "cuda" or (config.device == "auto" and _gpus() >= sizes[0] * config.gpus_per_worker)
        per_worker = {"CPU": config.cpus_per_worker} | ({"GPU": config.gpus_per_worker} if use_gpu else {})
        device = "cuda" if use_gpu else "cpu"
        run = functools.partial(_run_rank, function, argument, device, most_threads(config))
        backend = KERNELS[device].ddp_backend

        def group(attempt: int) -> bool:
            size = _find_room(sizes, per_worker, config.start_timeout)
            if config.address is None and not use_gpu:
                return _in_thread(
                    functools.partial(actors.run_group, run, size, config.cpus_per_worker, backend, config.silence)
                )
            from dragoman.pipelines.cluster import train_group  # loads Ray Train

            bridge = courier = None
            if ends is not None and config.address is not None:
                from dragoman.pipelines.cluster.bridge import Bridge, Courier, open_mailbox

                mailbox, both = open_mailbox(), ends()
                room_for = functools.partial(_has_room, per_worker)
                bridge = Bridge(both, sizes, size, mailbox, room_for, config.resize_every)
                courier = Courier(both, mailbox)
            unique = f"{name}-{int(time.time())}-{attempt}"
            fit_group = train_group.prepare(run, size, per_worker, backend, config, storage, unique, courier)
            with contextlib.nullcontext() if bridge is None else bridge.carrying():
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
            logger.info(f"the workers have failed and are started again ({failures} of {max_failures} times)")


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
    """Returns the result of `function`, run in a thread; the main thread receives signals meanwhile."""
    end: Future[Result] = Future()

    def run() -> None:
        try:
            end.set_result(function())
        except BaseException as problem:  # of any kind: it belongs to the waiting thread
            end.set_exception(problem)

    threading.Thread(target=run, name="ray-driver", daemon=True).start()
    return end.result()


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
    """Returns the GPUs of the whole cluster."""
    import ray

    return float(ray.cluster_resources().get("GPU", 0.0))


def _run_rank(
    function: Callable[[Argument, Ranks], bool], argument: Argument, device: str, threads: int, place: actors.Place
) -> bool:
    """Runs one training process: takes its device and cores, then calls the function."""
    start_recorder()  # before it is confined
    confine_worker()
    chosen = pick_device(device, place.local_rank)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    use_cores(place.local_size, threads)
    return function(argument, Ranks(place.rank, place.size, chosen))
