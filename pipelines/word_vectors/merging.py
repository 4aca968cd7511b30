"""Sorted runs of counted cells on disk to one sorted stream, a bounded piece of every run in memory at a time."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.files import atomic_open

CELL = 16  # bytes
Cells = NDArray[np.int64]  # (n, 2) cell and what was counted in it, cells rising, each once


def write_run(path: Path, blocks: Iterable[Cells]) -> None:
    """One run; the file is there whole or not at all."""
    with atomic_open(path, durable=False) as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, "<i8").data)


def merge_runs(runs: Sequence[Path], at_once: int) -> Iterator[Cells]:
    """All runs as one, equal cells summed; about `at_once` cells are held.

    Each step takes from every run what is not above the least of the cells that the pieces in memory end with, so that
    whatever belongs together meets in it.
    """
    piece = max(1, at_once // max(1, len(runs)))
    heads = [np.empty((0, 2), np.int64) for _ in runs]
    places, sizes = [0] * len(runs), [path.stat().st_size // CELL for path in runs]  # read of each run, and there
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
    """(n, 2) in any order to rising cells, each once."""
    cells = cells[np.argsort(cells[:, 0], kind="stable")]
    first = np.flatnonzero(np.diff(cells[:, 0], prepend=cells[0, 0] - 1))
    return np.stack([cells[first, 0], np.add.reduceat(cells[:, 1], first)], axis=1)
