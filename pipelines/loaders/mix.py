"""The order in which a training reads the corpora of a mix: stages, weights, and each corpus' own epochs.

Each part is a stream without end: all its records, chunk by chunk in a new order, again and again. Window g of the run
takes the next records of each stream, as many as its weight of a window's records gives. What came before is a closed
formula, so a window depends on (seed, g) alone: any number of ranks and any resume gives the same one. The stages
follow OpusTrainer (Bogoychev et al. 2023), sizes to the power of 1 / temperature Arivazhagan et al. 2019.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError, unknown
from dragoman.model.shards.manifest import Manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.pipelines.loaders.window import philox_order
from dragoman.pipelines.settings import LoaderConfig, MixConfig, Shares

KEY = "loader.mix"
OF_PARTS = 3  # last number of the keys of random orders: keeps a part's apart from those of batches
NAMING = ("weights", "until")  # keys of a stage that name parts


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


@dataclass(frozen=True)
class Stage:
    """A stage with its shares settled."""

    shares: Mapping[str, float]  # by part, their sum is 1
    part: str = ""  # the stage ends when it has read this part
    times: float = math.inf  # so often


@dataclass(frozen=True)
class _Planned:
    """A stage's place in the run."""

    first: int  # window of the run
    shares: Mapping[str, float]
    read: Mapping[str, int]  # records of each part before it


class MixOrder:
    """The slices of chunks of each window. An epoch of the loader has `windows` and as many records as all parts."""

    def __init__(self, reader: ShardReader, config: LoaderConfig, seed: int, windows: int) -> None:
        sizes, parts = reader.chunk_sizes(), np.array(reader.chunk_parts())
        names = [part.name for part in reader.manifest.parts]
        self.streams = {
            name: _Stream(np.flatnonzero(parts == name), sizes, seed, number) for number, name in enumerate(names)
        }
        self.windows = windows
        self.records = max(2 * len(names), reader.records // windows)  # of a window; enough that one is never empty
        self.planned = self._plan(stages_of(reader.manifest, config.mix, config.shares), config.lanes)
        self._starts = [planned_part.first for planned_part in self.planned]

    def window(self, epoch: int, number: int) -> list[Slice]:
        """Returns the slices of window `number` of an epoch, part after part."""
        place = epoch * self.windows + number
        begin, end = self.read_before(place), self.read_before(place + 1)
        return [part for name, stream in self.streams.items() for part in stream.take(begin[name], end[name])]

    def read_before(self, place: int) -> dict[str, int]:
        """Returns part -> its records in all windows before window `place` of the run."""
        stage = self.planned[bisect_right(self._starts, place) - 1]
        done = place - stage.first
        return {
            name: stage.read[name] + int(stage.shares.get(name, 0.0) * self.records * done) for name in self.streams
        }

    def describe(self) -> list[str]:
        """Returns a line per stage: its parts with their shares, and when it begins in epochs of each part."""
        lines = []
        for number, stage in enumerate(self.planned, 1):
            shares = ", ".join(f"{name} {share:.0%}" for name, share in stage.shares.items())
            read = ", ".join(
                f"{name} {stage.read[name] / stream.records:.1f} times" for name, stream in self.streams.items()
            )
            lines.append(f"stage {number}: {shares}" + (f"; before it: {read}" if stage.first else ""))
        return lines

    def _plan(self, stages: Sequence[Stage], lanes: int) -> list[_Planned]:
        """A stage begins in all lanes at once: it has a whole number of windows for each."""
        planned, first, read = [], 0, dict.fromkeys(self.streams, 0)
        for stage in stages:
            planned.append(_Planned(first, stage.shares, dict(read)))
            if not stage.part:
                break
            records = stage.times * self.streams[stage.part].records
            rows = math.ceil(records / (stage.shares[stage.part] * self.records * lanes))
            first += rows * lanes
            for name, share in stage.shares.items():
                read[name] += int(share * self.records * rows * lanes)
        return planned


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
            epoch, place = divmod(begin, self.records)
            order, ends = self._order(epoch)
            at = int(np.searchsorted(ends, place, side="right"))
            chunk, size = int(order[at]), int(self.sizes[order[at]])
            first = place - (int(ends[at]) - size)
            last = min(size, first + end - begin)
            slices.append(Slice(int(self.chunks[chunk]), first, last, epoch))
            begin += last - first
        return slices

    def _order(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns (chunks,) the order of an epoch, and where each chunk ends in it."""
        if epoch not in self._orders:
            self._orders = {
                planned_epoch: order for planned_epoch, order in self._orders.items() if planned_epoch >= epoch - 2
            }
            order = philox_order(len(self.chunks), self.seed, epoch, self.number, OF_PARTS)
            self._orders[epoch] = order, np.cumsum(self.sizes[order])
        return self._orders[epoch]


def stages_of(manifest: Manifest, config: MixConfig, shares: Shares = "records") -> list[Stage]:
    """Returns the stages of the mix with each part's share of the records; one without an end if there are none.

    `shares`: what the weights count.
    """
    check_mix(manifest, config)
    sizes = {name: len(ids) for name, ids in manifest.part_ranges("train").items()}
    lengths = _tokens_a_record(manifest) if shares == "tokens" else dict.fromkeys(sizes, 1.0)
    by_size = {name: (size * lengths[name]) ** (1 / config.temperature) for name, size in sizes.items()}
    usual = config.weights or by_size
    stages = []
    for stage in config.stages:
        (part, times), *_ = [*stage.until.items(), ("", math.inf)]
        stages.append(Stage(_shares(stage.weights or usual, lengths), part, times))
    return stages or [Stage(_shares(usual, lengths))]


def _tokens_a_record(manifest: Manifest) -> dict[str, float]:
    """Returns the mean tokens of both sides of each part's records."""
    tokens, records = Counter[str](), Counter[str]()
    for entry in manifest.split("train").shards:
        tokens[entry.part] += entry.source_tokens + entry.target_tokens
        records[entry.part] += entry.records
    return {name: tokens[name] / records[name] for name in records}


def check_mix(manifest: Manifest, config: MixConfig) -> None:
    """Refuses weights and stages that do not fit the shards."""
    names = [part.name for part in manifest.parts]
    if not names:
        if config != MixConfig():
            raise UserError(
                f"{KEY}: the shards are of one corpus; corpus=mix makes shards of several, see docs/mixing.md"
            )
        return
    if config.weights and config.temperature != 1:
        raise UserError(f"{KEY}.temperature={config.temperature:g}: is for parts without weights; give one of the two")
    for key, shares in [
        (f"{KEY}.weights", config.weights or {}),
        *((f"{KEY}.stages[{i}].{key}", getattr(stage, key)) for i, stage in enumerate(config.stages) for key in NAMING),
    ]:
        for name in shares:
            if name not in names:
                raise unknown(key, name, names)
    for number, stage in enumerate(config.stages):
        key, last = f"{KEY}.stages[{number}]", number == len(config.stages) - 1
        weights = stage.weights or config.weights or dict.fromkeys(names, 1.0)
        if len(stage.until) > 1:
            raise UserError(f"{key}.until={stage.until}: one part ends a stage, not {len(stage.until)}")
        if not stage.until and not last:
            raise UserError(f"{key}: never ends, so the next never begins; give it until: {{PART: TIMES}}")
        if stage.until and last:
            raise UserError(
                f"{key}.until={stage.until}: nothing follows the last stage; it lasts to the training's end"
            )
        if stage.until and not stage.until.keys() <= weights.keys():
            raise UserError(f"{key}: never ends: it does not read {next(iter(stage.until))}, which it waits for")


def _shares(weights: Mapping[str, float], lengths: Mapping[str, float]) -> dict[str, float]:
    """Returns the shares of the records that give each part its weight of records of these lengths."""
    records = {name: weight / lengths[name] for name, weight in weights.items()}
    total = math.fsum(records.values())
    return {name: weight / total for name, weight in records.items()}
