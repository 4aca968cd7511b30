"""How many processes train a run, and how its lanes are shared among them."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from model.runs.record import read_record
from pipelines.config import Config
from pipelines.loaders.prefetch import check_lanes


def worker_sizes(config: Config) -> tuple[int, ...]:
    """How many processes may train, in ascending order: of a range those that can share the run's lanes evenly."""
    if config.cluster.backend != "ray":
        return (int(os.environ.get("WORLD_SIZE", "1")),)
    lanes = config.loader.lanes
    sizes = range(config.cluster.least, config.cluster.most + 1)
    return tuple(size for size in sizes if not lanes or lanes % size == 0) or (config.cluster.most,)


def worker_count(config: Config) -> int:
    """How many processes will train at most."""
    return worker_sizes(config)[-1]


def with_lanes(config: Config, runs: Iterable[Path]) -> Config:
    """The configuration with its number of lanes settled, where `loader.lanes` leaves it open (0).

    It is that of the first of `runs` that has begun, which goes on with the same batches on any number of ranks that
    divides it; else one a rank, two at least.
    """
    if config.loader.lanes:
        return config
    begun = (read_record(run) for run in runs)
    kept = (record["loader"]["lanes"] for record in begun if record and "loader" in record)
    return replace(config, loader=replace(config.loader, lanes=next(kept, max(2, worker_count(config)))))


def check_lanes_of(config: Config) -> None:
    """Raises UserError where the workers cannot share the lanes evenly; needs no shards."""
    check_lanes(config.loader.lanes, worker_count(config))


def is_first() -> bool:
    """Whether this process speaks for the run: torchrun starts the same command on every rank."""
    return int(os.environ.get("RANK", "0")) == 0
