"""A window: the records of some chunks, ordered, cut into batches and padded, by pure functions."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.shards.reader import Chunk
from dragoman.model.text.batch import TranslationBatch, bounds_of, gather
from dragoman.model.text.subword_regularization import SubwordSampler


@dataclass
class Window:
    """The records of some chunks. A side's record i is ids[starts[i] : starts[i] + lengths[i]]."""

    ids: NDArray[np.int64]  # (n,) global record ids
    source: NDArray[Any]  # (source tokens,)
    source_starts: NDArray[np.int64]  # (n,)
    source_lengths: NDArray[np.int64]  # (n,)
    target: NDArray[Any]
    target_starts: NDArray[np.int64]
    target_lengths: NDArray[np.int64]

    @staticmethod
    def of(chunks: Sequence[Chunk]) -> "Window":
        """Concatenates the chunks in this order."""
        source_starts, source_lengths = _starts([chunk.source_offsets for chunk in chunks])
        target_starts, target_lengths = _starts([chunk.target_offsets for chunk in chunks])
        return Window(
            np.concatenate([np.arange(chunk.first_id, chunk.first_id + chunk.records) for chunk in chunks]),
            np.concatenate([chunk.source for chunk in chunks]),
            source_starts,
            source_lengths,
            np.concatenate([chunk.target for chunk in chunks]),
            target_starts,
            target_lengths,
        )

    def resample_sides(self, samplers: "Sequence[SubwordSampler]", *key: int) -> "Window":
        """Returns the same records with other segmentations, drawn by (source, target) samplers from `key`."""
        packed: list[NDArray[Any]] = []
        sides = ((self.source, self.source_starts), (self.target, self.target_starts))
        for side, (sampler, (ids, starts)) in enumerate(zip(samplers, sides, strict=True)):
            rows = sampler.resample(np.split(ids, starts[1:]), philox(*key, side))
            packed += [np.concatenate(rows), *bounds_of(rows)]
        return Window(self.ids, *packed)

    def source_row(self, row: int) -> NDArray[Any]:
        """Returns the source ids of a record."""
        return self.source[self.source_starts[row] : self.source_starts[row] + self.source_lengths[row]]

    def target_row(self, row: int) -> NDArray[Any]:
        """Returns the target ids of a record."""
        return self.target[self.target_starts[row] : self.target_starts[row] + self.target_lengths[row]]

    def turned(self) -> "Window":
        """Returns the same records from target to source."""
        source = self.source, self.source_starts, self.source_lengths
        return Window(self.ids, self.target, self.target_starts, self.target_lengths, *source)

    def take(self, rows: NDArray[np.int64]) -> "Window":
        """Returns these records in this order, without copying the packed ids."""
        return Window(
            self.ids[rows],
            self.source,
            self.source_starts[rows],
            self.source_lengths[rows],
            self.target,
            self.target_starts[rows],
            self.target_lengths[rows],
        )

    def batches(self, rows: NDArray[np.int64], batch_tokens: int) -> tuple["Window", list[slice]]:
        """Returns `rows` sorted by length, and the slices that make a batch each, for `batch`."""
        order, parts = cut(rows, self.source_lengths, self.target_lengths, batch_tokens)
        return self.take(order), parts

    def batch(self, part: slice) -> TranslationBatch:
        """Returns these records as a padded batch."""
        return gather(
            (self.source, self.source_starts[part], self.source_lengths[part]),
            (self.target, self.target_starts[part], self.target_lengths[part]),
            self.ids[part],
        )


def cut(
    rows: NDArray[np.int64], source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64], batch_tokens: int
) -> tuple[NDArray[np.int64], list[slice]]:
    """Sorts `rows` and cuts them into batches of B x max(S, T) <= `batch_tokens`; a longer row is a batch alone.

    Sorts by the longer side, then by target length; rows of equal lengths keep their order.
    """
    if len(rows) == 0:
        return rows, []
    target = target_lengths[rows]
    longer = np.maximum(source_lengths[rows], target)
    key = longer * (int(longer.max()) + 1) + target
    if key.max() < 1 << 16:
        key = key.astype(np.uint16)  # NumPy sorts this type by counting
    order = np.argsort(key, kind="stable")
    rows, longer = rows[order], longer[order]  # longer is ascending, so a batch's last row is its longest
    batches = []
    begin, length = 0, longer.item
    while begin < len(rows):
        lasts = range(begin, min(len(rows), begin + batch_tokens // length(begin)))
        fitting = bisect_right(lasts, batch_tokens, key=lambda last: (last - begin + 1) * length(last))
        end = begin + max(1, fitting)
        batches.append(slice(begin, end))
        begin = end
    return rows, batches


def philox_order(count: int, *key: int) -> NDArray[np.int64]:
    """Returns a random order of 0 ... `count` - 1 that depends only on `key` (up to four numbers)."""
    return np.argsort(philox(*key).random_raw(count)).astype(np.int64)  # 64 random bits: no two are equal


def philox(*key: int) -> np.random.Philox:
    """Returns random bits that depend only on `key` (two to four numbers); different keys never overlap."""
    words = [number & 0xFFFFFFFFFFFFFFFF for number in key]
    return np.random.Philox(key=words[:2], counter=[0, 0, *words[2:], *[0] * (4 - len(words))])


def _starts(offsets: list[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (starts, lengths) of all records in the concatenation of chunks with these offsets."""
    wide = [array.astype(np.int64) for array in offsets]
    bases = np.cumsum([0, *(array[-1] for array in wide)])
    starts = np.concatenate([array[:-1] + base for array, base in zip(wide, bases, strict=False)])
    return starts, np.concatenate([np.diff(array) for array in wide])
