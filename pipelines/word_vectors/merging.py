"""Merges sorted runs of counted cells on disk, with a bounded piece of every run in memory."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.model.files import atomic_open

CELL = 16  # bytes
Cells = NDArray[np.int64]  # (n, 2) cell and its count, cells ascending, each once


def write_run(path: Path, blocks: Iterable[Cells]) -> None:
    """Writes one run atomically."""
    with atomic_open(path, durable=False) as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, "<i8").data)


def merge_runs(runs: Sequence[Path], at_once: int) -> Iterator[Cells]:
    """Merges all runs, summing equal cells; holds about `at_once` cells.

    Each step takes from every run the cells up to the least of the pieces' last cells, so that equal cells meet in the
    same step.
    """
    piece = max(1, at_once // max(1, len(runs)))
    heads = [np.empty((0, 2), np.int64) for _ in runs]
    places, sizes = [0] * len(runs), [path.stat().st_size // CELL for path in runs]  # read so far, and in total
    while True:
        for number, path in enumerate(runs):
            if not len(heads[number]) and places[number] < sizes[number]:
                heads[number] = np.fromfile(path, "<i8", 2 * piece, offset=CELL * places[number]).reshape(-1, 2)
                places[number] += len(heads[number])
        ends = [int(heads[number][-1, 0]) for number in range(len(runs)) if places[number] < sizes[number]]
        lowest = min(ends, default=np.iinfo(np.int64).max)
        stops = [int(np.searchsorted(head[:, 0], lowest, side="right")) for head in heads]
        taken = [head[:stop] for head, stop in zip(heads, stops, strict=True) if stop]
        if not taken:
            return
        heads = [head[stop:] for head, stop in zip(heads, stops, strict=True)]
        yield sum_cells(np.concatenate(taken)) if len(taken) > 1 else taken[0]


def sum_cells(cells: Cells) -> Cells:
    """Turns (n, 2) in any order into ascending cells, each once."""
    cells = cells[np.argsort(cells[:, 0], kind="stable")]
    first = np.flatnonzero(np.diff(cells[:, 0], prepend=cells[0, 0] - 1))
    return np.stack([cells[first, 0], np.add.reduceat(cells[:, 1], first)], axis=1)
