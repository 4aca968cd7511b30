"""The door to Ray: connecting, asking what there is, spreading tasks, running a group of training workers."""

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from model.confinement import confine_worker
from model.device import KERNELS, pick_device, use_cores
from model.errors import UserError
from model.files import atomic_write
from pipelines.cluster import embedded_ray
from pipelines.cluster.ranks import Ranks
from pipelines.settings import ClusterConfig

if TYPE_CHECKING:
    from pipelines.cluster.bridge import Ends  # Ray Train is loaded when it is used

Argument = TypeVar("Argument")
Result = TypeVar("Result")
END_PATIENCE = 10.0  # seconds for our thread of Ray's controller to end after an interrupt
SAID_AFTER = 5.0  # seconds without room for the workers until that is said
ELASTIC_TRY = 10.0  # seconds that a group of one size waits for room, where another size may find it
logger = logging.getLogger(__name__)


@contextlib.contextmanager
def connect_ray(config: ClusterConfig) -> Iterator[None]:
    """Ray, embedded or at `config.address`, for the length of the block; a connection that was there stays.

    Raises:
        UserError: nothing answers at `cluster.address`, or it holds fewer CPUs or GPUs than asked for.
    """
    embedded_ray.quiet_environment()
    import ray

    if ray.is_initialized() and not embedded_ray.is_begun():
        check_capacity(config)
        yield
        return
    if config.address is None:
        logger.info("starting Ray")
        with embedded_ray.start_ray(config.device):
            check_capacity(config)
            yield
        return
    logger.info(f"connecting to Ray at {config.address}")
    try:
        start = functools.partial(ray.init, config.address, logging_level=logging.ERROR, log_to_driver=False)
        embedded_ray.undisturbed(start, "Ray answers")
    except (ConnectionError, TimeoutError) as problem:
        raise UserError(f"cluster.address: no Ray cluster answers at {config.address!r} ({problem})") from problem
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


def check_capacity(config: ClusterConfig) -> None:
    """Refuses at once what would otherwise wait for ever.

    Raises:
        UserError: the cluster has fewer CPUs or GPUs in all than the fewest workers need.
    """
    import ray

    total = ray.cluster_resources()
    needs = {"GPU": config.least * config.gpus_per_worker} if config.device == "cuda" else {}
    needs["CPU"] = config.least * config.cpus_per_worker
    for resource, needed in needs.items():
        there = total.get(resource, 0.0)
        if needed > there:
            raise UserError(
                f"cluster.workers={config.workers}: needs {needed:g} {resource}s, the cluster has {there:g}. "
                f"Ask for fewer workers, or join more nodes to it"
            )


def map_tasks(
    function: Callable[[Any], Result],
    arguments: Sequence[Argument],
    config: ClusterConfig,
    load: Callable[[Argument], Any] = lambda argument: argument,
) -> Iterator[Result]:
    """`function` of each argument as results come, at most `config.most` at a time; order is not kept.

    The functions must be pure and top-level: they run in other processes, and again elsewhere when a node is lost.
    A task's own exception is raised here, as it was. `load` is called here when it is an argument's turn.
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
    """A plain function, which is what Ray takes; its worker opens no more files than the job may."""

    def call(argument: Any) -> Result:
        confine_worker()
        return function(argument)

    return call


def fit(
    function: Callable[[Argument, Ranks], object],
    argument: Argument,
    config: ClusterConfig,
    storage: Path,
    name: str,
    sizes: tuple[int, ...] = (),
    ends: "Callable[[], Ends] | None" = None,
) -> None:
    """Runs `function(argument, ranks)` on `config.workers` processes that form one torch process group.

    Of a range of workers it runs as many as there is room for, one of `sizes`; on a cluster that goes on after us, as
    many as there is room for at any time. `ends` is what goes between that cluster and this machine meanwhile.

    A worker that dies takes its group with it and the group starts again, `config.max_failures` times; the function
    must go on from its own checkpoints. `storage` is for Ray's own state, which nobody needs afterwards: every start
    is a new Ray run, since the state of ours is in its run directory.

    Ray's driver runs in a thread, so that a signal's handler is heard here at once. What it raises ends the workers.

    Raises:
        UserError: the cluster is too small or stays too busy, or any worker met a mistake of the user.
        RuntimeError: the workers died more often than allowed.
    """
    with connect_ray(config):
        from ray.train import ControllerError, FailureConfig, RunConfig, ScalingConfig, TrainingFailedError

        from pipelines.cluster.lean_trainer import LeanTrainer, ProcessGroup

        sizes = sizes or (config.most,)
        use_gpu = config.device == "cuda" or (config.device == "auto" and _gpus() >= sizes[0] * config.gpus_per_worker)
        per_worker = {"CPU": config.cpus_per_worker} | ({"GPU": config.gpus_per_worker} if use_gpu else {})
        refusal = storage / "refused.txt"
        refusal.unlink(missing_ok=True)
        payload = {
            "function": function,
            "argument": argument,
            "device": "cuda" if use_gpu else "cpu",
            "refusal": str(refusal),
            "threads": most_threads(config),
        }
        if config.address is None:
            sizes = (_largest(sizes, per_worker),)
        elastic = len(sizes) > 1
        # workers find room within `start_timeout` in so many tries; one of a range of sizes is another size each time
        tries = max(2, int(config.start_timeout / ELASTIC_TRY)) if elastic else 2
        os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = str(config.start_timeout / tries)
        os.environ.setdefault("RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S", str(config.silence))
        settings: dict[str, Any] = {
            "train_loop_config": payload,
            "backend_config": ProcessGroup(KERNELS["cuda" if use_gpu else "cpu"].ddp_backend),
            "scaling_config": ScalingConfig(
                num_workers=(sizes[0], sizes[-1]) if elastic else sizes[0],
                use_gpu=use_gpu,
                resources_per_worker=per_worker,
                elastic_resize_monitor_interval_s=config.resize_every,
            ),
            "run_config": RunConfig(
                name=f"{name}-{int(time.time())}",
                storage_path=str(storage),
                failure_config=FailureConfig(
                    max_failures=config.max_failures,
                    max_preemption_failures=config.max_failures,
                    controller_failure_limit=1 if config.address is None else config.max_failures,
                ),
                callbacks=[_end_where_refused(refusal)],
            ),
        }
        if config.address is None:
            trainer = LeanTrainer(_worker, embedded=True, **settings)
        else:
            from pipelines.cluster.bridge import Bridge
            from pipelines.cluster.elastic import ClusterTrainer

            bridge = None if ends is None else Bridge(ends(), sizes)
            trainer = ClusterTrainer(_worker, tries=tries, bridge=bridge, **settings)
        room = f"{sizes[0]} workers with {', '.join(f'{n:g} {key}' for key, n in per_worker.items())} each"
        try:
            patience = END_PATIENCE if config.address is None else 0.0
            _in_thread(trainer.fit, lambda: _say_what_lacks(room), trainer.end, patience)
        except TrainingFailedError as problem:
            if refusal.exists():
                raise UserError(refusal.read_text(encoding="utf-8")) from None
            cause = problem.controller_failure if isinstance(problem, ControllerError) else problem
            if type(cause).__name__ == "WorkerGroupStartupTimeoutError":
                raise UserError(
                    f"cluster.start_timeout={config.start_timeout:g}: in so many seconds there was no room for {room}; "
                    f"{_free()}. Wait for what runs there, give it longer, or ask for fewer workers"
                ) from None
            raise RuntimeError(f"training failed on the workers: {problem}") from problem


def _in_thread(
    function: Callable[[], object], waiting: Callable[[], bool], left: Callable[[], None], patience: float = 0.0
) -> None:
    """`function` in a thread of its own; `waiting` is asked every SAID_AFTER seconds, until it has spoken, and `left`
    is called where nobody waits any more. The thread then has `patience` seconds to end: Ray must not be shut down
    while it is being asked."""
    end: Future[object] = Future()

    def run() -> None:
        try:
            end.set_result(function())
        except BaseException as problem:  # whatever it is, it belongs to the thread that waits
            end.set_exception(problem)

    threading.Thread(target=run, name="ray-driver", daemon=True).start()
    spoken = False
    try:
        while not end.done():
            wait([end], timeout=None if spoken else SAID_AFTER)
            spoken = spoken or end.done() or waiting()
    finally:
        left()
        wait([end], timeout=patience)
    end.result()


def _say_what_lacks(room: str) -> bool:
    """Says that workers wait for room in the cluster, if they do; whether it was said."""
    import ray

    lacks = any(group["state"] == "PENDING" for group in ray.util.placement_group_table().values())
    if lacks:
        logger.info(f"waiting for room for {room}; {_free()}")
    return lacks


def _free() -> str:
    """What nobody uses of the cluster."""
    import ray

    free, total = ray.available_resources(), ray.cluster_resources()
    parts = [f"{free.get(key, 0):g} of {total[key]:g} {key}s" for key in ("CPU", "GPU") if key in total]
    return f"free in the cluster: {', '.join(parts)}"


def _end_where_refused(refusal: Path) -> Any:
    """A callback of Ray's controller: a worker that met a mistake of the user is no reason to start again; what it said
    is kept in `refusal`.

    The other workers may wait for the one that failed, for ever: the controller ends them.
    """
    from ray.train import UserCallback

    class EndWhereRefused(UserCallback):  # type: ignore[misc]  # Ray is untyped
        def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
            if refusal.exists():
                raise UserError(refusal.read_text(encoding="utf-8"))
            for problem in worker_exceptions.values():  # of a worker on another machine
                if isinstance(problem, UserError):
                    atomic_write(refusal, str(problem))
                    raise UserError(str(problem))

    return EndWhereRefused()


def most_threads(config: ClusterConfig) -> int:
    """That a worker computes with; 0: its share of all cores of its machine.

    A cluster is shared: two jobs whose threads wait for the same cores are several times slower than in turns.
    """
    return 0 if config.address is None else max(1, int(config.cpus_per_worker))


def _largest(sizes: tuple[int, ...], per_worker: dict[str, float]) -> int:
    """Of these numbers of workers the largest that a cluster of our own has room for; the smallest if it has none."""
    import ray

    total = ray.cluster_resources()
    room = min(total.get(key, 0.0) // need for key, need in per_worker.items() if need)
    return max((size for size in sizes if size <= room), default=sizes[0])


def _gpus() -> float:
    """GPUs of the whole cluster."""
    import ray

    return float(ray.cluster_resources().get("GPU", 0.0))


def _worker(payload: dict[str, Any]) -> None:
    """One training process: find its place, then run the function it was started for."""
    from ray import train

    confine_worker()
    context = train.get_context()
    device = pick_device(payload["device"], context.get_local_rank())
    if device.type == "cuda":
        torch.cuda.set_device(device)
    use_cores(context.get_local_world_size(), payload["threads"])
    ranks = Ranks(context.get_world_rank(), context.get_world_size(), device)
    try:
        payload["function"](payload["argument"], ranks)
    except UserError as problem:  # no use in starting again: leave word where the driver may see it
        if Path(payload["refusal"]).parent.is_dir():
            atomic_write(Path(payload["refusal"]), str(problem))
        raise
