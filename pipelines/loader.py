"""Batches in an order that depends on the seed alone: lanes, windows, batches.

`lanes` independent streams make one global step: each gives one batch. Rank r of W serves the lanes l with l mod W = r,
so the batches of step k are the same for any world size that divides the lanes. Within an epoch the chunks are put in
a random order and dealt to windows of equal size, `window_chunks` at most, equally many for each lane; lane l owns the
windows l, l + lanes, ... A window's batches depend on nothing but (seed, epoch, window): shuffle, stable sort by
length, cut at the token budget, shuffle the batches. A lane goes on to its next epoch by itself; every record comes
once in each.

All random orders are the argsort of raw Philox numbers (Salmon et al. 2011): the same with every version of NumPy.
"""

import contextlib
import logging
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from model.batch import TranslationBatch
from model.errors import UserError
from model.tokenizer import load_pair
from pipelines.shards.manifest import manifest_hash
from pipelines.shards.reader import ShardReader
from pipelines.window import Window, philox_order

if TYPE_CHECKING:  # SentencePiece is needed only where segmentations are sampled
    from model.sampling import SubwordSampler

logger = logging.getLogger(__name__)
WINDOWS_A_LANE = 2  # that an epoch should hold at least, where the corpus is small
AHEAD = 3  # steps that the prefetch thread prepares


@dataclass
class LoaderConfig:
    """What makes a batch."""

    lanes: int = 2  # batches a global step; the number of ranks must divide it
    batch_tokens: int = 4096  # at most B x max(S, T), padding included
    window_chunks: int = 16  # chunks shuffled and sorted together, at most; fewer in a small corpus
    max_length: int = 256  # records with a longer side (EOS included) are left out, counted and reported
    sampling: float = 0.0  # 0: off; bpe: share of the merges left out (0.1); unigram: exponent of the probabilities


@dataclass
class Position:
    """The next batch of a lane."""

    epoch: int = 0
    window: int = 0  # of the lane's own, so the epoch's window number is lane + window x lanes
    batch: int = 0


@dataclass
class _Lane:
    """One stream; `position` is how far batches were made, not how far they were used."""

    number: int
    position: Position
    epoch: int = -1  # that `order` belongs to
    order: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    window: Window | None = None
    batches: list[slice] = field(default_factory=list)
    first_epoch: int = 0  # in which what is left out is counted
    empty: int = 0  # windows in a row that gave no batch


class LaneLoader:
    """This rank's lanes of a split, endlessly.

    Raises:
        UserError: lanes that the world size does not divide or that outnumber the chunks, a budget or length below 2.
    """

    def __init__(self, reader: ShardReader, config: LoaderConfig, seed: int = 1, rank: int = 0, world: int = 1) -> None:
        _check(reader, config, world)
        self.reader, self.config, self.seed = reader, config, seed
        enough = -(-reader.chunks // (config.lanes * config.window_chunks))  # windows a lane
        self.windows = config.lanes * min(max(enough, WINDOWS_A_LANE), reader.chunks // config.lanes)  # an epoch's
        self._hash = manifest_hash(reader.directory)
        self._own = range(rank, config.lanes, world)
        self._used = {lane: Position() for lane in self._own}
        self._samplers = _samplers(reader, config.sampling, seed) if config.sampling > 0 else []
        self.left_out = 0  # records longer than max_length met so far, each counted once
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._ready: queue.Queue[_Step | BaseException] = queue.Queue(maxsize=AHEAD)
        self._failure: BaseException | None = None

    @property
    def epoch(self) -> int:
        """Epochs that all lanes of this rank have behind them."""
        return min(position.epoch for position in self._used.values())

    def step(self) -> list[TranslationBatch]:
        """The next batch of each of this rank's lanes, in order. What goes wrong in the thread rises here."""
        if self._failure is not None:
            raise self._failure
        if self._thread is None:
            self._start()
        made = self._ready.get()
        if isinstance(made, BaseException):
            self._failure = made
            raise made
        self._used = made.after
        return made.batches

    def state(self) -> dict[str, Any]:
        """Where this rank's lanes stand, counted in used batches; JSON-able. Ranks' states differ in "lanes" only."""
        lanes = {str(lane): vars(position).copy() for lane, position in self._used.items()}
        return {"manifest": self._hash, "order": self._order(), "lanes": lanes}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where the merged `state` of all ranks, of any world size, stood.

        Raises:
            UserError: it was made from other shards or with settings under which the batches differ.
        """
        if state["manifest"] != self._hash:
            raise UserError(
                f"{self.reader.directory}: not the shards that the checkpoint was made with (manifest "
                f"{self._hash[:12]}, then {state['manifest'][:12]}); point paths.shards at those or start a new run"
            )
        for key, value in self._order().items():
            if state["order"].get(key, value) != value:  # a setting that is younger than the checkpoint was not used
                raise UserError(
                    f"{key}={value}: the checkpoint was made with {state['order'].get(key)}; "
                    f"keep it, or start a new run (another name)"
                )
        self.close()
        self._used = {lane: Position(**state["lanes"][str(lane)]) for lane in self._own}

    def close(self) -> None:
        """End the prefetch thread; `step` starts it again."""
        self._stop.set()
        if self._thread is not None:
            while self._thread.is_alive():
                self._drain()
                self._thread.join(timeout=0.01)
            self._thread = None
        self._drain()
        self._failure = None

    def _drain(self) -> None:
        while not self._ready.empty():
            self._ready.get_nowait()

    def _order(self) -> dict[str, Any]:
        """The settings that the order of batches depends on."""
        settings = {f"loader.{key}": value for key, value in vars(self.config).items()}
        return {"seed": self.seed, "split": self.reader.split, **settings}

    def _start(self) -> None:
        self._stop.clear()
        lanes = [_Lane(lane, Position(**vars(at)), first_epoch=at.epoch) for lane, at in self._used.items()]
        self._thread = threading.Thread(target=self._run, args=(lanes,), name="loader", daemon=True)
        self._thread.start()

    def _run(self, lanes: list[_Lane]) -> None:
        try:
            while not self._stop.is_set():
                batches = [self._next(lane) for lane in lanes]
                self._put(_Step(batches, {lane.number: Position(**vars(lane.position)) for lane in lanes}))
        except BaseException as problem:  # whatever it is, it belongs to the thread that waits in step()
            self._put(problem)

    def _put(self, made: "_Step | BaseException") -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._ready.put(made, timeout=0.1)
                return

    def _next(self, lane: _Lane) -> TranslationBatch:
        """Make the batch at the lane's position and move on."""
        position = lane.position
        while True:
            if lane.number + position.window * self.config.lanes >= self.windows:
                position.epoch, position.window, position.batch = position.epoch + 1, 0, 0
                lane.window = None
            if lane.window is None:
                self._open_window(lane)
            if position.batch < len(lane.batches):
                break
            lane.empty = 0 if lane.batches else lane.empty + 1
            if lane.empty > self.windows:
                raise UserError(
                    f"loader.max_length={self.config.max_length}: all records of lane {lane.number} are longer"
                )
            position.window, position.batch, lane.window = position.window + 1, 0, None
        assert lane.window is not None
        batch = lane.window.batch(lane.batches[position.batch])
        position.batch += 1
        return batch

    def _open_window(self, lane: _Lane) -> None:
        """Read the window at the lane's position and order its batches."""
        epoch = lane.position.epoch
        if lane.epoch != epoch:
            lane.epoch, lane.order = epoch, philox_order(self.reader.chunks, self.seed, epoch)
        number = lane.number + lane.position.window * self.config.lanes
        first, last = (place * self.reader.chunks // self.windows for place in (number, number + 1))
        chunks = lane.order[first:last].tolist()
        window = Window.of([self.reader.chunk(i) for i in chunks])
        if self._samplers:
            window = window.resampled(self._samplers, self.seed, epoch, 2**32 + number)
        rows = philox_order(len(window.ids), self.seed, epoch, number + 1, 1)
        limit = min(self.config.max_length, self.config.batch_tokens)
        fitting = np.maximum(window.source_lengths, window.target_lengths)[rows] <= limit
        self._count_left_out(lane, int(np.count_nonzero(~fitting)))
        lane.window, batches = window.batches(rows[fitting], self.config.batch_tokens)
        lane.batches = [batches[i] for i in philox_order(len(batches), self.seed, epoch, number + 1, 2)]

    def _count_left_out(self, lane: _Lane, records: int) -> None:
        if records and not self.left_out:
            logger.warning(
                f"loader.max_length={self.config.max_length}: longer records are left out, the first {records} of them "
                f"in epoch {lane.epoch}; LaneLoader.left_out counts them"
            )
        if lane.epoch == lane.first_epoch:
            self.left_out += records


@dataclass
class _Step:
    """One global step's share and the lanes' positions after it."""

    batches: list[TranslationBatch]
    after: dict[int, Position]


def held_out_batches(
    reader: ShardReader, batch_tokens: int, rank: int = 0, world: int = 1
) -> Iterator[TranslationBatch]:
    """Every record of a split once, sorted by length, dealt to ranks batch by batch; nothing is left out.

    The whole split is held in memory, a few bytes a token: it is meant for held-out sets. `ids` give their own order.
    """
    if reader.chunks == 0:
        return
    window = Window.of(list(reader))
    window, parts = window.batches(np.arange(len(window.ids)), batch_tokens)
    for part in parts[rank::world]:
        yield window.batch(part)


def _check(reader: ShardReader, config: LoaderConfig, world: int) -> None:
    if reader.manifest.kind != "parallel":
        raise UserError(f"{reader.directory}: the shards are {reader.manifest.kind}, translation needs parallel ones")
    if config.lanes < 1 or config.lanes % world != 0:
        raise UserError(
            f"loader.lanes={config.lanes}: {world} ranks cannot share {config.lanes} lanes evenly; "
            f"take a number of ranks (cluster.workers) that divides loader.lanes"
        )
    if not 0 <= config.sampling <= 1:
        raise UserError(f"loader.sampling={config.sampling}: must be between 0 (off) and 1")
    for key in ("batch_tokens", "window_chunks", "max_length"):
        least = 1 if key == "window_chunks" else 2
        if getattr(config, key) < least:
            raise UserError(f"loader.{key}={getattr(config, key)}: must be at least {least}")
    if reader.records == 0:
        raise UserError(f"{reader.directory}: the split {reader.split!r} holds no records")
    if reader.chunks < config.lanes:
        raise UserError(
            f"loader.lanes={config.lanes}: the split {reader.split!r} has only {reader.chunks} chunks "
            f"({reader.records} records); take at most {reader.chunks} lanes"
        )


def _samplers(reader: ShardReader, strength: float, seed: int) -> "list[SubwordSampler]":
    """One a side; the same twice where the vocabulary is joint."""
    from model.sampling import SubwordSampler
    from model.subwords import SubwordTokenizer

    pair = load_pair(reader.directory, reader.manifest.tokenizer)
    source, target = pair.source, pair.target
    if not (isinstance(source, SubwordTokenizer) and isinstance(target, SubwordTokenizer)):
        raise UserError(f"loader.sampling={strength}: {source.type} have one segmentation only; take bpe or unigram")
    first = SubwordSampler(source, strength, seed)
    return [first, first if pair.joint else SubwordSampler(target, strength, seed)]
