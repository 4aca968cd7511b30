"""Sorted runs of counted cells on disk to one sorted stream, a bounded piece of every run in memory at a time."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.corpus.scratch import whole

Cells = NDArray[np.int64]  # (n, 2) cell and what was counted in it, cells rising, each once


def write_run(path: Path, blocks: Iterable[Cells]) -> None:
    """One run; the file is there whole or not at all."""
    with whole(path) as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, "<i8").data)


def merged(runs: Sequence[Path], at_once: int) -> Iterator[Cells]:
    """All runs as one, equal cells summed; about `at_once` cells are held.

    Each step takes from every run what is not above the least of the cells that the runs' next pieces end with, so
    that whatever belongs together meets in it.
    """
    maps = [np.memmap(path, "<i8", "r").reshape(-1, 2) for path in runs if path.stat().st_size]
    places = [0] * len(maps)
    piece = max(1, at_once // max(1, len(maps)))
    while True:
        heads = [cells[place : place + piece] for cells, place in zip(maps, places, strict=True)]
        bounds = [
            int(head[-1, 0])
            for head, cells, place in zip(heads, maps, places, strict=True)
            if place + len(head) < len(cells)
        ]
        if bounds:
            lowest = min(bounds)
            heads = [head[: np.searchsorted(head[:, 0], lowest, side="right")] for head in heads]
        places = [place + len(head) for place, head in zip(places, heads, strict=True)]
        heads = [head for head in heads if len(head)]
        if not heads:
            return
        yield summed(np.concatenate(heads)) if len(heads) > 1 else np.array(heads[0])


def summed(cells: Cells) -> Cells:
    """(n, 2) in any order to rising cells, each once."""
    cells = cells[np.argsort(cells[:, 0], kind="stable")]
    first = np.flatnonzero(np.diff(cells[:, 0], prepend=cells[0, 0] - 1))
    return np.stack([cells[first, 0], np.add.reduceat(cells[:, 1], first)], axis=1)
