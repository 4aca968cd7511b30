"""Compares a run's journal with the batches that its shards and settings give.

A step's batches depend on the shards, the seed and the settings alone. So one process can make them again, on however
many workers the run was trained and whatever interrupted it.
"""

import contextlib
from collections.abc import Generator
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.journal import step_digest
from dragoman.model.runs.lines import JournalReader
from dragoman.pipelines.loaders.prefetch import Lanes

Replay = Generator[tuple[int, int]]  # (digest, tokens) of each step, from the first on


class DifferenceError(Exception):
    """The first difference between a run and what it should be."""


def replay_lanes(loader: Lanes[Any]) -> Replay:
    """Yields every step of a loader that has all lanes, without end."""
    with contextlib.closing(loader):
        while True:
            batches = loader.step()
            yield int(step_digest(batch.digest() for batch in batches), 16), sum(batch.items for batch in batches)


def compare_steps(run: Path, replay: Replay) -> int:
    """Returns the number of steps in the journal, whose digests are those of the batches made again.

    Raises DifferenceError: a step is missing, stands there twice, or had other batches.
    """
    reader, step = JournalReader(run / paths.STEPS, most=None), 0
    with contextlib.closing(replay):
        for line in reader.lines():
            if "batch" not in line:  # an evaluation, or the end of an epoch
                continue
            last, count = int(line["step"]), int(line.get("steps", 1))  # word vectors: one line for several steps
            if last - count != step:
                jump = f"line {reader.number}: step {last - count + 1:,} follows step {step:,}"
                raise DifferenceError(reader.notes[0] if reader.notes else jump)
            steps = list(islice(replay, count))
            expected = sum(digest for digest, _ in steps) % 2**32, sum(tokens for _, tokens in steps)
            if (int(line["batch"], 16), int(line["tokens"])) != expected:
                raise DifferenceError(f"step {last:,}: the shards give other batches than the run was trained on")
            step = last
    if reader.notes:
        raise DifferenceError(reader.notes[0])
    if step < (newest := checkpoints.newest_step(run)):
        raise DifferenceError(f"the journal ends at step {step:,}, and there is a checkpoint of step {newest:,}")
    return step
