"""The sequence of every training: check, claim the folder, run the ranks, release the result."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.conf import compose
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.loaded import later
from dragoman.model.memory import keep_few_products
from dragoman.model.runs import lock, paths
from dragoman.model.storage.mirror import remote_of
from dragoman.pipelines.cluster import ray_train
from dragoman.pipelines.cluster.map import connect
from dragoman.pipelines.cluster.ranks import Ranks, from_environment
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks import training_texts
from dragoman.pipelines.tasks.base import Plan, Task, task_for
from dragoman.pipelines.tasks.identity import check_run_dir, check_same_shards, claim_run_dir
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.schedule import describe_plans, settle_schedule
from dragoman.pipelines.tasks.workers import is_first, with_lanes, worker_sizes
from dragoman.pipelines.tracking.lineage import log_training
from dragoman.pipelines.tracking.server import is_database
from dragoman.pipelines.training import progress, publishing
from dragoman.pipelines.training.stopping import Signals, is_paused, signals

if TYPE_CHECKING:
    from dragoman.pipelines.cluster.link import Link

release = later("dragoman.pipelines.tasks.release:release")  # what the end of a training needs, loaded at the end


def train(config: Config, say: Callable[[str], object] = print) -> Path | None:
    """Trains the run `name` to its end, then releases it; the same call resumes it.

    Returns the bundle's directory, on the first rank; `say` receives the report of its scores. A refused command leaves
    no folder of a run.

    Raises Interrupted: a signal came.
    """
    keep_few_products()
    run = Run.of(config)
    new = not (run.folder.exists() and any(run.folder.iterdir()))
    if is_first():
        publishing.pull(run.folder)
        new = new and not paths.begun(run.folder)
    try:
        return _train(with_lanes(config, [run.folder]), run, say)
    except (UserError, ServiceError):
        if new and not (run.folder / paths.SPOOL).exists():  # it has not begun
            shutil.rmtree(run.folder, ignore_errors=True)
        raise


def _train(config: Config, run: Run, say: Callable[[str], object]) -> Path | None:
    task = task_for(config.model)
    task.training.validate(config)
    claim_run_dir(config, task.training.fingerprint(config))
    with claim_run(run) as received:
        training = task.training.needs_training(config)
        if training:
            config = settle_schedule(config)
        # as written: without paths of this machine
        values = {key: value for key, value in compose.plain(config).items() if key not in task.training.unread}
        # workers may be started in another folder
        config = replace(config, tracking=run.tracking, paths=config.paths.absolute())
        if training and is_first():
            training_texts.keep(config)
        with run.closed_record():
            if training:
                run_ranks(task, config, run, task.training.plan(config), values, received)
                if is_first() and config.train.max_minutes:
                    settle_schedule(config)  # the number of steps is known by now
                    tag_plans(config, run)
            bundle: Path | None = release(config, run, task, say) if is_first() else None
            return bundle


def check(config: Config) -> None:
    """Refuses what a start would refuse at once, as far as that is known if the shards are elsewhere."""
    config = with_lanes(config, [config.run_dir])
    task = task_for(config.model)
    if not config.paths.visible:
        task.training.validate_settings(config)
        return
    task.training.validate(config)
    check_run_dir(config, task.training.fingerprint(config))


@contextlib.contextmanager
def claim_run(run: Run) -> Iterator[Signals]:
    """Reserves the run for this command within the block, and lets signals end it in order."""
    claimed = lock.hold_run(run.folder, run.name) if is_first() else contextlib.nullcontext()
    with claimed, signals(run.folder) as received:
        yield received


def run_ranks(
    task: Task, config: Config, run: Run, plan: Plan | None, values: Mapping[str, Any], received: Signals
) -> None:
    """Runs the task's `train_rank` on all workers to its end, with the record begun before.

    Args:
        plan: how to run; None if no ranks are needed.
        values: the configuration as written, for the record.
        received: the signals, from `claim_run`.
    """
    if plan is None:
        record_start(config, run, values)
        return
    config = replace(config, cluster=plan.cluster)
    shown = (run.folder, plan.steps, plan.unit, plan.told, plan.timed)
    display = progress.show_progress(*shown) if is_first() else contextlib.nullcontext()
    with connect(config.cluster) as cluster:  # a cluster that refuses leaves no run behind
        config = replace(config, cluster=cluster)
        record_start(config, run, values)
        publishing.publish(run.folder)
        train_rank = partial(train_here, task.training.train_rank, run.began)
        with display, received.awaited():
            if cluster.backend == "local":
                train_rank(config, from_environment(cluster.device))
            else:
                sizes = worker_sizes(config)
                follow = None
                if cluster.address is not None and (remote_of(run.folder) is not None or len(sizes) > 1):
                    from dragoman.pipelines.tasks.remote_rank import follow_group  # loads Ray Train

                    follow = partial(follow_group, run.folder, sizes, cluster.resize_every)
                ray_train.fit(train_rank, config, cluster, run.folder / paths.RAY, run.name, sizes, follow)
                publishing.pull(run.folder)  # the first rank may have worked elsewhere


def train_here(
    train_rank: Callable[[Config, Ranks, Run], object],
    began: float,
    config: Config,
    ranks: Ranks,
    link: "Link | None" = None,
) -> bool:
    """Runs `train_rank` on a machine that gets the run's newest files, for a command that `began` then.

    `link`: the command's, if it follows the first rank. Returns, on the first rank, True if the workers have ended
    so that a group of another size may continue.
    """
    keep_few_products()  # before anything multiplies matrices
    if config.cluster.address is not None:
        config = replace(config, paths=config.paths.on_node())
        if remote_of(config.run_dir) is not None and is_database(config.tracking.uri):
            # the database is a file of the command's machine: records made here are sent there with the run's files
            config = replace(config, tracking=replace(config.tracking, offline=True))
    run = replace(Run.of(config), began=began)
    publishing.pull(run.folder)
    check_same_shards(config)
    with contextlib.ExitStack() as stack:
        if link is not None:
            from dragoman.pipelines.tasks.remote_rank import serve_command

            stack.enter_context(serve_command(run.folder, link, ranks.first))
        train_rank(config, ranks, run)
    return ranks.first and is_paused(run.folder)


def record_start(config: Config, run: Run, values: Mapping[str, Any]) -> None:
    """Records the run's inputs; the record stays open for the next process."""
    with run.shared_record() as tracked:
        log_training(tracked, values, compose.fingerprint(values), config.shard_dir)
    if not config.train.max_minutes:
        tag_plans(config, run)


def tag_plans(config: Config, run: Run) -> None:
    """Tags the record with the run's plans, if its schedule has an end."""
    plans = describe_plans(config)
    if plans:
        with run.shared_record() as tracked:
            tracked.tags({"schedule": plans})
