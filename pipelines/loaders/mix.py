"""The order in which a training reads the corpora of a mix: weights, and each corpus' own epochs.

Each part is a stream without end: all its records, chunk by chunk in a new order, again and again. Window g of the run
takes the next records of each stream, as many as its weight of a window's records gives. What came before is a closed
formula, so a window depends on (seed, g) alone: any number of ranks and any resume gives the same one. Sizes to the
power of 1 / temperature are of Arivazhagan et al. 2019.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError, unknown
from dragoman.model.shards.manifest import Manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.pipelines.loaders.window import philox_order
from dragoman.pipelines.settings import MixConfig

KEY = "loader.mix"
OF_PARTS = 3  # last number of the keys of random orders: keeps a part's apart from those of batches


@dataclass(frozen=True)
class Slice:
    """The records `begin` to `end` - 1 of a chunk."""

    chunk: int
    begin: int
    end: int
    epoch: int  # how often its corpus was read before

    @property
    def records(self) -> int:
        return self.end - self.begin


class MixOrder:
    """The slices of chunks of each window. An epoch of the loader has `windows` and as many records as all parts."""

    def __init__(self, reader: ShardReader, config: MixConfig, seed: int, windows: int) -> None:
        sizes, parts = reader.chunk_sizes(), np.array(reader.chunk_parts())
        names = [part.name for part in reader.manifest.parts]
        self.streams = {
            name: _Stream(np.flatnonzero(parts == name), sizes, seed, number) for number, name in enumerate(names)
        }
        self.windows = windows
        self.records = max(2 * len(names), reader.records // windows)  # of a window; enough that one is never empty
        self.shares = shares_of(reader.manifest, config)

    def window(self, epoch: int, number: int) -> list[Slice]:
        """Returns the slices of window `number` of an epoch, part after part."""
        index = epoch * self.windows + number
        begin, end = self.read_before(index), self.read_before(index + 1)
        return [part for name, stream in self.streams.items() for part in stream.take(begin[name], end[name])]

    def read_before(self, index: int) -> dict[str, int]:
        """Returns part -> its records in all windows before window `index` of the run."""
        return {name: int(self.shares.get(name, 0.0) * self.records * index) for name in self.streams}

    def describe(self) -> list[str]:
        """Returns a line: each part's share of the records."""
        return [", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())]


class _Stream:
    """The records of a part, over and over; each time its chunks have another order."""

    def __init__(self, chunks: NDArray[np.int64], sizes: NDArray[np.int64], seed: int, number: int) -> None:
        self.chunks, self.sizes, self.seed, self.number = chunks, sizes[chunks], seed, number
        self.records = int(self.sizes.sum())
        self._orders: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def take(self, begin: int, end: int) -> list[Slice]:
        """Returns the records `begin` to `end` - 1 of the stream."""
        slices = []
        while begin < end:
            epoch, index = divmod(begin, self.records)
            order, ends = self._order(epoch)
            at = int(np.searchsorted(ends, index, side="right"))
            chunk, size = int(order[at]), int(self.sizes[order[at]])
            first = index - (int(ends[at]) - size)
            last = min(size, first + end - begin)
            slices.append(Slice(int(self.chunks[chunk]), first, last, epoch))
            begin += last - first
        return slices

    def _order(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns (chunks,) the order of an epoch, and where each chunk ends in it."""
        if epoch not in self._orders:
            self._orders = {other: order for other, order in self._orders.items() if other >= epoch - 2}
            order = philox_order(len(self.chunks), self.seed, epoch, self.number, OF_PARTS)
            self._orders[epoch] = order, np.cumsum(self.sizes[order])
        return self._orders[epoch]


def shares_of(manifest: Manifest, config: MixConfig) -> Mapping[str, float]:
    """Returns part -> its share of the records, by weight or by size and temperature; their sum is 1."""
    check_mix(manifest, config)
    sizes = {name: len(ids) for name, ids in manifest.part_ranges("train").items()}
    weights = config.weights or {name: size ** (1 / config.temperature) for name, size in sizes.items()}
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def check_mix(manifest: Manifest, config: MixConfig) -> None:
    """Refuses weights that do not fit the shards."""
    names = [part.name for part in manifest.parts]
    if not names:
        if config != MixConfig():
            raise UserError(
                f"{KEY}: the shards are of one corpus; corpus=mix makes shards of several, see docs/mixing.md"
            )
        return
    if config.weights and config.temperature != 1:
        raise UserError(f"{KEY}.temperature={config.temperature:g}: is for parts without weights; give one of the two")
    for name in config.weights or {}:
        if name not in names:
            raise unknown(f"{KEY}.weights", name, names)
