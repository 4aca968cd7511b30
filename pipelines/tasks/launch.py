"""The sequence of every training: check, claim the folder, run the ranks, release the result."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conf import compose
from model.errors import ServiceError, UserError, interrupt_in
from model.memory import keep_few_products
from model.runs import lock, paths
from model.runs.attempts import StaleAttemptError
from model.runs.spool import Spool
from model.storage.mirror import remote_of
from pipelines.cluster import ray_train
from pipelines.cluster.ranks import Ranks, from_environment
from pipelines.config import Config
from pipelines.tasks.base import Plan, Task, task_for
from pipelines.tasks.identity import check_run_dir, claim_run_dir
from pipelines.tasks.release import release
from pipelines.tasks.schedule import describe_plans, settle_schedule
from pipelines.tasks.workers import is_first, with_lanes, worker_sizes
from pipelines.tracking.lineage import log_training
from pipelines.tracking.run import TrackedRun
from pipelines.tracking.server import is_database, resolve_paths
from pipelines.training import progress, publishing
from pipelines.training.stopping import Signals, is_paused, read_reason, signals

if TYPE_CHECKING:
    from pipelines.cluster.bridge import Ends


def train(config: Config, say: Callable[[str], object] = print) -> Path | None:
    """Trains the run `name` to its end, then releases it; the same call resumes it.

    Returns the bundle's directory, on the first rank; `say` receives the report of its scores. A refused command leaves
    no folder of a run.

    Raises:
        UserError: the task's `validate` refuses, the folder belongs to a run of other settings, or is being trained.
        Interrupted: a signal came.
    """
    keep_few_products()
    new = not (config.run_dir.exists() and any(config.run_dir.iterdir()))
    if is_first():
        publishing.pull(config.run_dir)
        new = new and not paths.begun(config.run_dir)
    try:
        return _train(with_lanes(config, [config.run_dir]), say)
    except UserError:
        if new and not (config.run_dir / paths.SPOOL).exists():  # it has not begun
            shutil.rmtree(config.run_dir, ignore_errors=True)
        raise


def _train(config: Config, say: Callable[[str], object]) -> Path | None:
    task = task_for(config.model)
    task.validate(config)
    claim_run_dir(config, task.fingerprint(config))
    with claim_run(config) as received:
        training = task.needs_training(config)
        if training:
            config = settle_schedule(config)
        # as written: without paths of this machine
        values = {key: value for key, value in compose.plain(config).items() if key not in task.unread}
        # workers may be started in another folder
        config = replace(config, tracking=resolve_paths(config.tracking), paths=config.paths.absolute())
        with closed_record(config):
            if training:
                run_ranks(task, config, task.plan(config), values, received)
            return release(config, task, say) if is_first() else None


def check(config: Config) -> None:
    """Refuses what a start would refuse at once, as far as that is known if the shards are elsewhere.

    Raises:
        UserError: the task's `validate` refuses, or the folder belongs to a run of other settings; without shards, the
        task's `validate_settings` refuses.
    """
    config = with_lanes(config, [config.run_dir])
    task = task_for(config.model)
    if not config.paths.visible:
        task.validate_settings(config)
        return
    task.validate(config)
    check_run_dir(config, task.fingerprint(config))


@contextlib.contextmanager
def claim_run(config: Config) -> Iterator[Signals]:
    """Reserves the run for this command within the block, and lets signals end it in order.

    Raises:
        UserError: another command trains it.
        Interrupted: a signal came.
    """
    claimed = lock.hold_run(config.run_dir, config.name) if is_first() else contextlib.nullcontext()
    with claimed, signals(config.run_dir) as received:
        yield received


def run_ranks(task: Task, config: Config, plan: Plan | None, values: Mapping[str, Any], received: Signals) -> None:
    """Runs the task's `train_rank` on all workers to its end, with the record begun before.

    Args:
        plan: how to run; None if no ranks are needed.
        values: the configuration as written, for the record.
        received: the signals, from `claim_run`.
    """
    if plan is None:
        record_start(config, values)
        return
    config = replace(config, cluster=plan.cluster)
    connected = ray_train.connect_ray(config.cluster) if config.cluster.backend == "ray" else contextlib.nullcontext()
    shown = progress.show_progress(config.run_dir, plan.steps, plan.unit) if is_first() else contextlib.nullcontext()
    with connected:  # a cluster that refuses leaves no run behind
        record_start(config, values)
        publishing.publish(config.run_dir)
        train_rank = partial(train_here, task.train_rank)
        with shown, received.awaited():
            if config.cluster.backend == "local":
                train_rank(config, from_environment(config.cluster.device))
            else:
                storage, sizes = config.run_dir / paths.RAY, worker_sizes(config)
                crosses = remote_of(config.run_dir) is not None or len(sizes) > 1
                ends = partial(open_ends, config) if crosses else None
                ray_train.fit(train_rank, config, config.cluster, storage, config.name, sizes, ends)
                publishing.pull(config.run_dir)  # the first rank may have worked elsewhere


def open_ends(config: Config) -> "Ends":
    """Returns the ends of the bridge to the first rank's machine; Ray Train is loaded by now."""
    from pipelines.tasks.ends import ends_of

    return ends_of(config)


@contextlib.contextmanager
def closed_record(config: Config) -> Iterator[None]:
    """Closes the run's record if the block ends with an error."""
    try:
        yield
    except BaseException as problem:
        if Spool(config.run_dir).status() == "RUNNING":
            close_record(config, problem)
        raise


def close_record(config: Config, problem: BaseException) -> None:
    """Ends the run's record: KILLED with the reason if the end was asked for, else FAILED."""
    ours = False
    with contextlib.suppress(ServiceError, UserError):
        ours = publishing.pull_own(config.run_dir)
    tracked = TrackedRun(config.tracking, config.run_dir, config.name)
    killed = interrupt_in(problem) is not None
    if killed:
        tracked.tags({"ended_by": read_reason(config.run_dir) or "interrupt"})
    tracked.finish("KILLED" if killed else "FAILED")
    with contextlib.suppress(ServiceError, UserError, StaleAttemptError):
        if ours:  # no other start has taken over
            publishing.publish(config.run_dir)


def train_here(train_rank: Callable[[Config, Ranks], object], config: Config, ranks: Ranks) -> bool:
    """Runs `train_rank` on a machine that has the run's newest files.

    Returns, on the first rank, True if the workers have ended so that a group of another size may continue.
    """
    keep_few_products()  # before the precision is measured, which multiplies matrices
    if config.cluster.address is not None:
        config = replace(config, paths=config.paths.on_node())
        if remote_of(config.run_dir) is not None and is_database(config.tracking.uri):
            # the database is a file of the command's machine: records made here are sent there with the run's files
            config = replace(config, tracking=replace(config.tracking, offline=True))
    publishing.pull(config.run_dir)
    train_rank(config, ranks)
    return ranks.first and is_paused(config.run_dir)


def record_start(config: Config, values: Mapping[str, Any]) -> None:
    """Records the run's inputs; the record stays open for the next process."""
    with TrackedRun(config.tracking, config.run_dir, config.name) as tracked:
        log_training(tracked, values, compose.fingerprint(values), config.shard_dir)
        plans = describe_plans(config)
        if plans:
            tracked.tags({"schedule": plans})
        tracked.leave()
