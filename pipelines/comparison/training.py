"""Equal budgets: every network is trained for equal tokens and minutes, translation networks on the same batches.

The batches of a step depend only on the shards, the loader and the seed, so equal steps mean equal tokens, sentence by
sentence. Language models that carry a state read the text in another order than those with windows, but as many tokens.
The runs are those of `dragoman train` and resume after a kill.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.lines import trained_seconds
from dragoman.model.shards.reader import ShardReader
from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.config import Config
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.loaders.streams import rows_of
from dragoman.pipelines.tasks.base import task_for
from dragoman.pipelines.tasks.identity import claim_run_dir
from dragoman.pipelines.tasks.launch import train
from dragoman.pipelines.tasks.release import is_released
from dragoman.pipelines.tasks.workers import with_lanes

logger = logging.getLogger(__name__)
ROOM = 1.05  # a step or an evaluation may end a little after the limit


def with_budget(config: Config, entries: Sequence[Entry]) -> list[Entry]:
    """Returns the entries with limits on their training, and refuses now whatever would stop it later."""
    runs = [entry.config.run_dir for entry in entries if entry.config is not None]
    config = with_lanes(config, runs)  # the same lanes, so the same batches, for all
    steps = budget_steps(config, entries[0].kind) if runs else 0
    limited = []
    for entry in entries:
        limits = None if entry.config is None else with_limits(replace(entry.config, loader=config.loader), steps)
        if limits is not None:
            task_for(limits.model).training.validate(limits)
            refuse_more(limits)
        limited.append(replace(entry, config=limits))
    return limited


def budget_steps(config: Config, kind: str) -> int:
    """Returns the first step after `compare.max_tokens` target tokens; `train.max_steps` if that is 0."""
    token_budget, settings = config.compare.max_tokens, config.loader
    if not token_budget:
        return config.train.max_steps
    if kind == "language":  # a row is always full
        return -(-token_budget // (settings.lanes * rows_of(settings) * settings.context_length))
    loader = LaneLoader(ShardReader(config.shard_dir, "train"), config.loader, config.seed)
    steps = tokens = 0
    try:
        while tokens < token_budget:
            tokens += sum(batch.items for batch in loader.step())
            steps += 1
    finally:
        loader.close()
    logger.info(f"{token_budget:,} target tokens a model are {steps:,} steps")
    return steps


def with_limits(config: Config, steps: int) -> Config:
    """Returns a run's configuration with the budget's steps, minutes and warm-up."""
    settings = config.compare
    optimizer = config.train.optimizer
    if settings.warmup:
        optimizer = replace(optimizer, warmup_steps=max(1, round(settings.warmup * steps)))
    limits = replace(config.train, max_steps=steps, max_minutes=settings.max_minutes, optimizer=optimizer)
    return replace(config, train=limits)


def refuse_more(config: Config) -> None:
    """Refuses a run that was started with other settings, or has exceeded the others' budget."""
    if paths.begun(config.run_dir):
        try:
            claim_run_dir(config, task_for(config.model).training.fingerprint(config))
        except UserError as problem:
            raise UserError(f"{problem} (of a comparison: choose another compare.name=)") from None
    step, minutes = checkpoints.newest_step(config.run_dir), (trained_seconds(config.run_dir) or 0.0) / 60
    limits = config.train
    over = step > limits.max_steps or (limits.max_minutes and minutes > ROOM * limits.max_minutes + 1)
    if step and over:
        raise UserError(
            f"compare.max_tokens, compare.max_minutes: the run {config.name!r} has had {step:,} steps and "
            f"{minutes:.1f} minutes, more than this budget ({limits.max_steps:,} steps, {limits.max_minutes:g} "
            f"minutes). Choose a larger one, or another compare.name to start again"
        )


def bundle_of(entry: Entry) -> Path:
    """Returns the entry's bundle; trains it now if needed."""
    if entry.config is None:
        assert entry.bundle is not None
        return entry.bundle
    bundle = entry.config.run_dir / paths.BUNDLE
    if is_finished(entry.config):
        logger.info(f"{entry.label}: trained before, in {entry.config.run_dir}")
    else:
        train(entry.config)
    return bundle


def is_finished(config: Config) -> bool:
    """Returns True if the run has finished and its bundle has its last weights."""
    task = task_for(config.model)
    has_checkpoint = paths.begun(config.run_dir) and checkpoints.newest(config.run_dir) is not None
    return has_checkpoint and not task.training.needs_training(config) and is_released(config, task)
