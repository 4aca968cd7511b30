"""Batches of sentence pairs in an order that depends only on the seed: lanes, windows, batches.

`pipelines/loaders/prefetch.py` explains lanes. An epoch shuffles the chunks and deals them to windows of equal size, at
most `window_chunks`, the same number for each lane; lane l owns the windows l, l + lanes, ... A window's batches depend
only on (seed, epoch, window): shuffle, stable sort by length, cut at the token budget, shuffle the batches. Every
record occurs once per epoch. Loaders of one language are in `text.py`.

All random orders are the argsort of raw Philox numbers (Salmon et al. 2011), the same with every version of NumPy.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Split
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch, compiled
from dragoman.model.text.subword_regularization import SubwordSampler
from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.loaders.mix import MixOrder, Slice, check_mix
from dragoman.pipelines.loaders.prefetch import ChunkLanes, OpenWindow
from dragoman.pipelines.loaders.window import Window, philox_order
from dragoman.pipelines.settings import LoaderConfig

TOGETHER = 4  # batches; more would leave the CPU cache before their use
logger = logging.getLogger(__name__)


class PaddedBatches:
    """Batches of records sorted by length, in any sequence: `batch` takes an index in `order`."""

    def __init__(self, window: Window, parts: list[slice], order: NDArray[np.int64]) -> None:
        self.window, self.parts, self.order = window, parts, order
        self.bounds = np.array([0, *(part.stop for part in parts)])
        firsts = self.bounds[:-1]
        self.rows = np.diff(self.bounds)  # (batches,), as all that follow
        self.sources = _reduce_batches(np.maximum, window.source_lengths, firsts)  # width
        self.targets = _reduce_batches(np.maximum, window.target_lengths, firsts)
        self.items = _reduce_batches(np.add, window.target_lengths, firsts)  # tokens
        self._made: tuple[int, list[TranslationBatch]] = -1, []  # the index of the first, and the cached batches

    def __len__(self) -> int:
        return len(self.parts)

    def batch(self, index: int) -> TranslationBatch:
        """Returns the batch at this index of the order; makes its neighbours too."""
        first = index - index % TOGETHER
        if self._made[0] != first:
            self._made = first, self._make(self.order[first : first + TOGETHER])
        return self._made[1][index - first]

    def _make(self, chosen: NDArray[np.int64]) -> list[TranslationBatch]:
        """Puts the batches' tensors one after the other in memory: source, target in, target out of each."""
        copies = compiled()
        if copies is None:
            return [self.window.batch(self.parts[number]) for number in chosen]
        window = self.window
        source = self.rows[chosen] * self.sources[chosen]
        target = self.rows[chosen] * self.targets[chosen]
        sizes = np.stack([source, target, target], 1)  # (chosen, 3)
        positions = np.ascontiguousarray((np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape).T)
        out = np.empty(int(sizes.sum()), dtype=np.int64)
        side = window.source, window.source_starts, window.source_lengths
        copies.fill_tables(*side, self.bounds, self.sources, chosen, positions[0], 0, out)
        side = window.target, window.target_starts, window.target_lengths
        copies.fill_tables(*side, self.bounds, self.targets, chosen, positions[1], 1, out)
        copies.fill_tables(*side, self.bounds, self.targets, chosen, positions[2], 0, out)
        tables = iter(torch.split(torch.from_numpy(out), sizes.ravel().tolist()))
        batches = []
        for at in chosen.tolist():
            source_table, target_in, target_out = (next(tables).view(int(self.rows[at]), -1) for _ in range(3))
            ids = window.ids[self.parts[at]]
            batches.append(TranslationBatch(source_table, target_in, target_out, int(self.items[at]), ids))
        return batches


def _reduce_batches(what: np.ufunc, lengths: NDArray[np.int64], firsts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reduces lengths over the records of each batch; `firsts` are the starts of batches."""
    reduced: NDArray[np.int64] = what.reduceat(lengths, firsts) if len(firsts) else firsts
    return reduced


class LaneLoader(ChunkLanes[TranslationBatch]):
    """This rank's lanes of a split of sentence pairs, without end."""

    of: ClassVar[tuple[str, ...]] = (
        *("lanes", "batch_tokens", "window_chunks", "max_length", "sampling", "both_directions", "mix"),
    )

    def __init__(self, reader: ShardReader, config: LoaderConfig, seed: int = 1, rank: int = 0, world: int = 1) -> None:
        _check(reader, config)
        super().__init__(reader, config, seed, rank, world)
        self.mix = MixOrder(reader, config.mix, seed, self.windows) if reader.manifest.parts else None
        self._sizes = reader.chunk_sizes()
        self._samplers = _samplers(reader, config.sampling, seed) if config.sampling > 0 else []
        self._left_out = False  # a record longer than max_length, which was said

    def nothing_fits(self, lane: int) -> UserError:
        return UserError(f"{limit_of(self.config)}: all records of lane {lane} are longer")

    def open(self, lane: int, epoch: int, number: int) -> OpenWindow[TranslationBatch]:
        slices = self._slices(epoch, number)
        ahead = number + self.lanes  # the lane's next window
        coming = self._slices(epoch, ahead) if ahead < self.windows else []
        self.reader.expect([part.chunk for part in (*slices, *coming)])
        self.reader.expect_all()
        window = self.read(lane, epoch, number, slices)
        rows = philox_order(len(window.ids), self.seed, epoch, number + 1, 1)
        fitting = np.maximum(window.source_lengths, window.target_lengths)[rows] <= self.longest
        if not self._left_out and not fitting.all():
            self._left_out = True
            logger.warning(f"{limit_of(self.config)}: longer records are left out, the first of them in epoch {epoch}")
        window, parts = window.batches(rows[fitting], self.config.batch_tokens)
        order = philox_order(len(parts), self.seed, epoch, number + 1, 2)
        return OpenWindow(len(parts), self.batches(window, parts, order))

    def read(self, lane: int, epoch: int, number: int, slices: list[Slice]) -> Window:
        """Returns the slices' pairs, segmented anew and turned around if the settings ask for it."""
        window = Window.of([self.reader.chunk(part.chunk).part(part.begin, part.end) for part in slices])
        if self._samplers:
            window = window.resample_sides(self._samplers, self.seed, epoch, 2**32 + number)
        return window.turned() if self._is_reversed(lane, epoch, number) else window

    def records_of(self, batch: TranslationBatch) -> NDArray[np.int64]:
        """Returns (B,) the global record ids of a batch."""
        return batch.ids

    def batches(
        self, window: Window, parts: list[slice], order: NDArray[np.int64]
    ) -> Callable[[int], TranslationBatch]:
        """Returns the batches, each of a part of the window, by their index in `order`."""
        return PaddedBatches(window, parts, order).batch

    def _slices(self, epoch: int, number: int) -> list[Slice]:
        """Returns the records of window `number` of an epoch: whole chunks, or of a mix its parts' shares."""
        if self.mix is not None:
            return self.mix.window(epoch, number)
        return [Slice(chunk, 0, int(self._sizes[chunk]), epoch) for chunk in self.chunks_of(epoch, number)]

    def _is_reversed(self, lane: int, epoch: int, number: int) -> bool:
        """Returns True if a window trains from target to source (a bidirectional start, Ding et al. 2021).

        Lanes start with alternating directions and alternate from window to window, so a step has both.
        """
        return epoch < self.config.both_directions and (lane + number // self.lanes + epoch) % 2 == 1


def epochs_of(slices: Sequence[Slice]) -> NDArray[np.int64]:
    """Returns (n,): how often each record of the slices was read before."""
    return np.repeat([part.epoch for part in slices], [part.records for part in slices])


def held_out_batches(
    reader: ShardReader, batch_tokens: int, rank: int = 0, world: int = 1
) -> Iterator[TranslationBatch]:
    """Yields every record of a split once, sorted by length, dealt to ranks batch by batch.

    Holds the whole split in memory, a few bytes per token: it is meant for held-out sets. `ids` give the records' own
    order.
    """
    if reader.chunks == 0:
        return
    window = Window.of(list(reader))
    window, parts = window.batches(np.arange(len(window.ids)), batch_tokens)
    for part in parts[rank::world]:
        yield window.batch(part)


def limit_of(config: LoaderConfig) -> str:
    """Returns the setting that drops long records, with its value."""
    key = "max_length" if config.max_length <= config.batch_tokens else "batch_tokens"
    return f"loader.{key}={getattr(config, key)}"


def check_lengths(split: Split, bounds: Sequence[int], config: LoaderConfig, positions: int | None) -> None:
    """Refuses limits that exclude every record of the split, and records that exceed the network's positions.

    Uses the histogram of lengths, so it opens no shard; a bucket counts as long as its longest records.
    """
    limit = min(config.max_length, config.batch_tokens)
    longest = 0.0
    for side, counts in (("source", split.source_lengths), ("target", split.target_lengths)):
        filled = [bucket for bucket, count in enumerate(counts) if count]
        shortest = bounds[filled[0] - 1] if filled and filled[0] else 0  # all records are longer than this
        if shortest >= limit:
            raise UserError(f"{limit_of(config)}: no record fits, each {side} has more than {shortest} tokens")
        if filled:
            longest = max(longest, bounds[filled[-1]] if filled[-1] < len(bounds) else math.inf)
    if positions is not None and min(limit, longest) > positions:
        raise UserError(
            f"model.max_positions={positions}: too few for records of up to {min(limit, longest):g} tokens; choose "
            f"that many, or loader.max_length={positions}, which leaves longer records out"
        )


def _check(reader: ShardReader, config: LoaderConfig) -> None:
    if reader.manifest.kind != "parallel":
        raise UserError(f"{reader.directory}: the shards are {reader.manifest.kind}, translation needs parallel ones")
    if config.both_directions and not load_pair(reader.directory, reader.manifest.tokenizer).joint:
        raise UserError(
            f"loader.both_directions={config.both_directions}: needs one vocabulary for both sides. Choices: "
            f"tokenizer.joint=true and sharding again, or loader.both_directions=0"
        )
    if config.both_directions and reader.manifest.parts:
        raise UserError(
            f"loader.both_directions={config.both_directions}: not on a mix, whose tags have one direction; choose 0"
        )
    check_mix(reader.manifest, config.mix)


def _samplers(reader: ShardReader, strength: float, seed: int) -> list[SubwordSampler]:
    """Returns one sampler per side; the same one twice if the vocabulary is joint."""
    pair = load_pair(reader.directory, reader.manifest.tokenizer)
    source, target = pair.source, pair.target
    if not (isinstance(source, SubwordTokenizer) and isinstance(target, SubwordTokenizer)):
        raise UserError(f"loader.sampling={strength}: {source.type} have one segmentation only; take bpe or unigram")
    first = SubwordSampler(source, strength, seed)
    return [first, first if pair.joint else SubwordSampler(target, strength, seed)]
