"""GloVe's co-occurrences: one pass over the text, counted in memory and kept as one file of entries in random order.

A pair at distance n weighs 1 / n, counted in whole units, so sums are exact and independent of their order. V words; a
*cell* is i * V + j.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open
from dragoman.model.word_vectors.counting import cooccurrences
from dragoman.model.word_vectors.glove import Cooccurrences
from dragoman.model.word_vectors.learner import Text
from dragoman.pipelines.loaders.window import philox_order

ENTRY = np.dtype([("i", "<i4"), ("j", "<i4"), ("x", "<f4")])
EXACT_WINDOW = 22  # up to this window 1 / n is a whole number of units for every n
SEGMENT_ENTRIES = 1 << 20  # most entries of a segment, 12 MB
AT_ONCE = 1 << 22  # counted cells that wait before they are added to the others
Cells = NDArray[np.int64]  # (n, 2) cell and its count, cells ascending, each once
Records = NDArray[np.void]


class Passage(Protocol):
    """The text to count: pipelines/loaders/segments.py's ShardText, read as its epoch 0."""

    segments: int

    def segment(self, epoch: int, index: int) -> Text: ...


@dataclass(frozen=True)
class Counting:
    """The inputs of a pass; equal inputs give equal results."""

    text: str  # hash or name of the text and of its word numbering
    vocabulary: int  # V
    window: int = 15
    symmetric: bool = True
    seed: int = 1  # for the order of entries


class CooccurrenceFeed:
    """Counted entries as segments, in another order each epoch."""

    unit = "entries"

    def __init__(self, path: Path, seed: int) -> None:
        if not path.is_file():
            raise UserError(f"{path}: no co-occurrences here; the pass over the text was not finished")
        self.seed, self._entries = seed, np.load(path, mmap_mode="r")
        self.entries = len(self._entries)
        self.segments = -(-self.entries // segment_size(self.entries))

    def segment(self, epoch: int, index: int) -> Cooccurrences:
        number = int(philox_order(self.segments, self.seed, epoch)[index])
        first, last = (edge * self.entries // self.segments for edge in (number, number + 1))
        records = self._entries[first:last]
        return Cooccurrences(*(np.ascontiguousarray(records[name]) for name in ("i", "j", "x")))

    def size(self, segment: Cooccurrences) -> int:
        return len(segment)


def count_cooccurrences(
    path: Path, text: Passage, counting: Counting, report: Callable[[int, int], None] = lambda done, segments: None
) -> CooccurrenceFeed:
    """Counts co-occurrences into the file `path`, unless it is there; calls `report` after each segment of the text."""
    if path.is_file():
        return CooccurrenceFeed(path, counting.seed)
    total, waiting = np.empty((0, 2), np.int64), list[Cells]()
    for segment in range(text.segments):
        waiting.append(count_pairs(text.segment(0, segment), counting))
        if sum(map(len, waiting)) > max(AT_ONCE, len(total)) or segment + 1 == text.segments:
            total, waiting = sum_cells(np.concatenate([total, *waiting])), []
        report(segment + 1, text.segments)
    if not len(total):
        raise UserError(
            f"model.window={counting.window}: no two words of the text meet: every record has fewer than two that "
            f"are frequent enough (model.min_count)"
        )
    entries = as_entries(total, counting)
    if counting.symmetric:
        entries = with_mirrors(entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_open(path, durable=False) as file:
        np.save(file, entries.take(np.random.default_rng(counting.seed).permutation(len(entries))))
    return CooccurrenceFeed(path, counting.seed)


def count_pairs(text: Text, counting: Counting) -> Cells:
    """Returns the cells of a text with their units; symmetric ones are counted once, with i <= j."""
    cells, weights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for weight, (before, after) in zip(units(counting.window), cooccurrences(text, counting.window), strict=False):
        row, column = (np.minimum(after, before), np.maximum(after, before)) if counting.symmetric else (after, before)
        cells.append(row.astype(np.int64) * counting.vocabulary + column)
        weights.append(np.full(len(before), weight))
    return sum_cells(np.stack([np.concatenate(cells), np.concatenate(weights)], axis=1))


def unit(window: int) -> int:
    """Returns the units of an adjacent pair: the least number that 1 to `window` divide, or 2^28 if that is huge.

    Beyond EXACT_WINDOW weights are rounded, by less than a part in 10^6 up to a window of 500. Sums stay below 2^63 for
    up to 3 * 10^10 occurrences of one pair.
    """
    return math.lcm(*range(1, window + 1)) if window <= EXACT_WINDOW else 1 << 28


def units(window: int) -> NDArray[np.int64]:
    """Returns (window,) the weight of a pair at distance 1, 2, ..., in units."""
    return np.array([round(unit(window) / distance) for distance in range(1, window + 1)], np.int64)


def as_entries(cells: Cells, counting: Counting) -> Records:
    """Turns (n, 2) cells and units into entries. In a symmetric matrix two equal words are each other's context."""
    entries = np.empty(len(cells), ENTRY)
    entries["i"], entries["j"] = np.divmod(cells[:, 0], counting.vocabulary)
    twice = 1 + (counting.symmetric & (entries["i"] == entries["j"]))
    entries["x"] = cells[:, 1] * twice / unit(counting.window)
    return entries


def with_mirrors(entries: Records) -> Records:
    """Returns the entries (i, j) with i <= j, and (j, i) for those off the diagonal."""
    mirrors = entries[entries["i"] != entries["j"]]
    mirrors["i"], mirrors["j"] = mirrors["j"], mirrors["i"].copy()
    return np.concatenate([entries, mirrors])


def sum_cells(cells: Cells) -> Cells:
    """Turns (n, 2) in any order into ascending cells, each once."""
    if not len(cells):
        return cells
    cells = cells[np.argsort(cells[:, 0], kind="stable")]
    first = np.flatnonzero(np.diff(cells[:, 0], prepend=cells[0, 0] - 1))
    return np.stack([cells[first, 0], np.add.reduceat(cells[:, 1], first)], axis=1)


def segment_size(entries: int) -> int:
    """Returns the entries per segment: small matrices still give every rank several, of 4,096 or more."""
    return min(SEGMENT_ENTRIES, max(4096, entries // 64))
