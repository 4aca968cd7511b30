"""Decides how many processes train a run, and how they share its lanes."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from dragoman.model.runs.record import read_record
from dragoman.pipelines.config import Config


def worker_sizes(config: Config) -> tuple[int, ...]:
    """Returns the possible numbers of processes, ascending: of a range, those that share the run's lanes evenly."""
    if config.cluster.backend == "local":
        return (int(os.environ.get("WORLD_SIZE", "1")),)
    lanes = config.loader.lanes
    sizes = range(config.cluster.least, config.cluster.most + 1)
    return tuple(size for size in sizes if not lanes or lanes % size == 0) or (config.cluster.most,)


def worker_count(config: Config) -> int:
    """Returns the largest number of processes that will train."""
    return worker_sizes(config)[-1]


def with_lanes(config: Config, runs: Iterable[Path]) -> Config:
    """Returns the configuration with its number of lanes settled, if `loader.lanes` leaves it open (0).

    It is that of the first of `runs` that has begun, whose batches stay the same on any number of ranks that divides
    it; else one per rank, and at least two.
    """
    if config.loader.lanes:
        return config
    begun = (read_record(run) for run in runs)
    kept = (record["loader"]["lanes"] for record in begun if record and "loader" in record)
    return replace(config, loader=replace(config.loader, lanes=next(kept, max(2, worker_count(config)))))


def is_first() -> bool:
    """Returns True if this process speaks for the run: torchrun starts the same command on every rank."""
    return int(os.environ.get("RANK", "0")) == 0
