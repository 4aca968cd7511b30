"""Which corpora of a mix the batches of a run came from, counted from the batches as replayed."""

import contextlib

import numpy as np

from dragoman.model.plural import plural
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.pipelines.config import Config
from dragoman.pipelines.loaders.denoising import DenoisingLoader
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.training.verification import Check, last_step


def check_parts(config: Config) -> Check | None:
    """Traces every record of every step to its corpus; None if the shards are no mix. The steps must be proved."""
    ranges = read_manifest(config.shard_dir).part_ranges("train")
    if not ranges:
        return None
    counts = np.zeros(len(ranges), np.int64)
    ends = [ids.stop for ids in ranges.values()]
    kind = LaneLoader if config.loader.denoise == "none" else DenoisingLoader
    with contextlib.closing(kind(ShardReader(config.shard_dir, "train"), config.loader, config.seed)) as loader:
        for _ in range(last_step(config.run_dir)):
            for batch in loader.step():
                counts += np.bincount(
                    np.searchsorted(ends, loader.records_of(batch), side="right"), minlength=len(ranges)
                )
    part_counts = [
        f"{name} {plural(count, 'record')}, {count / len(ids):.2f} times"
        for (name, ids), count in zip(ranges.items(), counts.tolist(), strict=True)
    ]
    return Check("parts", "same", "; ".join(part_counts))
