"""Starting the processes of a training, with the run claimed, its record begun and its progress on the driver."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from conf import compose
from pipelines.cluster import ray_train
from pipelines.cluster.ranks import Ranks, from_environment
from pipelines.config import Config
from pipelines.tracking.lineage import log_training
from pipelines.tracking.run import TrackedRun
from pipelines.training import progress, run_lock
from pipelines.training.stopping import Signals, signals


def is_first() -> bool:
    """Whether this process speaks for the run; torchrun starts the command on every rank."""
    return int(os.environ.get("RANK", "0")) == 0


@contextlib.contextmanager
def running(config: Config) -> Iterator[Signals]:
    """The run is this command's alone for the length of the block, and signals end it in order.

    Raises:
        UserError: another command trains it.
        Interrupted: a signal came.
    """
    claimed = run_lock.held(config.run_dir, config.name) if is_first() else contextlib.nullcontext()
    with claimed, signals(config.run_dir) as received:
        yield received


def launch(
    train_rank: Callable[[Config, Ranks], object],
    config: Config,
    values: dict[str, Any],
    steps: int,
    unit: str,
    received: Signals,
) -> None:
    """Run `train_rank` on all workers until it has come to its end.

    Args:
        train_rank: a function of a module's top level; it goes on from the run's newest checkpoint.
        values: the configuration as it was written, for the record.
        steps: where the journal's steps end; `unit` is what its tokens are.
        received: what stops it; from `running`.
    """
    with contextlib.ExitStack() as stack:
        if config.cluster.backend == "ray":
            stack.enter_context(ray_train.connected(config.cluster))  # a cluster that refuses leaves no run behind
        begin(config, values)
        _run(train_rank, config, steps, unit, received)


def _run(
    train_rank: Callable[[Config, Ranks], object], config: Config, steps: int, unit: str, received: Signals
) -> None:
    shown = progress.shown(config.run_dir, steps, unit) if is_first() else contextlib.nullcontext()
    try:
        with shown, received.awaited():
            if config.cluster.backend == "local":
                train_rank(config, from_environment(config.cluster.device))
            else:
                ray_train.fit(train_rank, config, config.cluster, config.run_dir / "ray", config.name)
    except BaseException as problem:
        killed = isinstance(problem, KeyboardInterrupt)
        TrackedRun(config.tracking, config.run_dir, config.name).finish("KILLED" if killed else "FAILED")
        raise


def begin(config: Config, values: dict[str, Any]) -> None:
    """Record what the run is made from; it stays open for whoever goes on with it."""
    with TrackedRun(config.tracking, config.run_dir, config.name) as tracked:
        log_training(tracked, values, compose.fingerprint(values), config.shard_dir)
        tracked.leave()
