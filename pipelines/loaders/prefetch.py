"""Lanes: streams of batches shared by any number of ranks, prepared by a thread, with exact resume.

A global step takes one batch from each of `lanes` independent streams. Rank r of W serves the lanes l with
l mod W = r, so the batches of step k are the same for any world size that divides the lanes. A lane goes through an
epoch's windows l, l + lanes, ... and their batches, and then starts its next epoch by itself. Each loader defines its
windows and batches; they must depend only on (seed, epoch, window).
"""

import copy
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.ranges import check_ranges
from dragoman.model.shards.reader import ShardReader
from dragoman.pipelines.loaders.window import philox_order
from dragoman.pipelines.settings import LoaderConfig

WINDOWS_A_LANE = 2  # least windows per epoch, if the corpus is small
TOGETHER = 4  # steps that the prefetch thread hands over at once: waking a thread takes some 10 us
AHEAD = 2  # such groups prepared ahead

B = TypeVar("B")


@dataclass(frozen=True)
class OpenWindow(Generic[B]):
    """A window with a fixed order of batches."""

    batches: int
    batch: Callable[[int], B]  # takes its number, 0 to `batches` - 1


@dataclass
class Position:
    """The position of a lane's next batch."""

    epoch: int = 0
    window: int = 0  # counted within the lane: the epoch's window number is lane + window x lanes
    batch: int = 0


@dataclass
class _Lane(Generic[B]):
    """One stream; `position` counts batches made, not batches used."""

    number: int
    position: Position
    opened: OpenWindow[B] | None = None
    empty: int = 0  # consecutive windows without a batch


@dataclass
class _Step(Generic[B]):
    """This rank's part of one global step, and the lanes' positions after it."""

    batches: list[B]
    after: dict[int, Position]


class Lanes(ABC, Generic[B]):
    """This rank's lanes, without end. A loader defines an epoch's windows and opens them."""

    of: ClassVar[tuple[str, ...]]  # the settings of the section `loader` that the order of batches depends on
    windows: int  # per epoch; lane l owns l, l + lanes, ...

    def __init__(self, reader: ShardReader, config: LoaderConfig, seed: int, rank: int, world: int) -> None:
        lanes = config.lanes
        check_lanes(lanes, world)
        self.reader, self.config, self.lanes, self.seed = reader, config, lanes, seed
        self._own = range(rank, lanes, world)
        self._used = {lane: Position() for lane in self._own}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._ready: queue.SimpleQueue[list[_Step[B]] | BaseException] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()  # one token per group that may be made
        self._given: deque[_Step[B]] = deque()  # handed over, not used yet
        self._failure: BaseException | None = None

    @abstractmethod
    def open(self, lane: int, epoch: int, number: int) -> OpenWindow[B]:
        """Opens window `number` of an epoch."""

    @abstractmethod
    def nothing_fits(self, lane: int) -> UserError:
        """Returns the error for a lane whose windows are all empty."""

    @property
    def epoch(self) -> int:
        """Returns the number of epochs that all lanes of this rank have finished."""
        return min(position.epoch for position in self._used.values())

    def step(self) -> list[B]:
        """Returns the next batch of each of this rank's lanes, in order; raises errors of the prefetch thread."""
        if self._failure is not None:
            raise self._failure
        if self._thread is None:
            self._start()
        if not self._given:
            made = self._ready.get()
            self._room.put(None)
            if isinstance(made, BaseException):
                self._failure = made
                raise made
            self._given.extend(made)
        step = self._given.popleft()
        self._used = step.after
        return step.batches

    def state(self) -> dict[str, Any]:
        """Returns lane -> the position of this rank's lanes in used batches, as JSON."""
        return {str(lane): vars(position).copy() for lane, position in self._used.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Resumes from the merged `state` of all ranks, of any world size; shards and settings are the run's own."""
        self.close()
        self._used = {lane: Position(**state[str(lane)]) for lane in self._own}

    def close(self) -> None:
        """Ends the prefetch thread; `step` starts it again."""
        self._stop.set()
        if self._thread is not None:
            self._room.put(None)  # the thread may wait for one
            self._thread.join()
            self._thread = None
        self._given.clear()
        self._failure = None

    def _start(self) -> None:
        self._stop.clear()
        self._ready, self._room = queue.SimpleQueue(), queue.SimpleQueue()
        for _ in range(AHEAD):
            self._room.put(None)
        lanes: list[_Lane[B]] = [_Lane(lane, Position(**vars(at))) for lane, at in self._used.items()]
        self._thread = threading.Thread(target=self._run, args=(lanes,), name="loader", daemon=True)
        self._thread.start()

    def _run(self, lanes: list[_Lane[B]]) -> None:
        try:
            while not self._stop.is_set():
                self._room.get()
                made: list[_Step[B]] = []
                try:
                    for _ in range(TOGETHER):
                        batches = [self._next(lane) for lane in lanes]
                        made.append(_Step(batches, {lane.number: copy.copy(lane.position) for lane in lanes}))
                finally:  # steps made before an error are valid
                    if made:
                        self._ready.put(made)
        except BaseException as problem:  # whatever it is, the thread waiting in step() must get it
            self._ready.put(problem)

    def _next(self, lane: _Lane[B]) -> B:
        """Makes the batch at the lane's position and advances."""
        position = lane.position
        while True:
            if lane.number + position.window * self.lanes >= self.windows:
                position.epoch, position.window, position.batch = position.epoch + 1, 0, 0
                lane.opened = None
            if lane.opened is None:
                number = lane.number + position.window * self.lanes
                lane.opened = self.open(lane.number, position.epoch, number)
            if position.batch < lane.opened.batches:
                break
            lane.empty = 0 if lane.opened.batches else lane.empty + 1
            if lane.empty > self.windows:
                raise self.nothing_fits(lane.number)
            position.window, position.batch, lane.opened = position.window + 1, 0, None
        batch = lane.opened.batch(position.batch)
        position.batch += 1
        return batch


class ChunkLanes(Lanes[B]):
    """Lanes whose windows hold the chunks of a split, in another order each epoch."""

    def __init__(self, reader: ShardReader, config: LoaderConfig, seed: int, rank: int, world: int) -> None:
        super().__init__(reader, config, seed, rank, world)
        check_ranges("loader", config)
        check_chunks(reader, config.lanes)
        self.longest = min(config.max_length, config.batch_tokens)  # tokens of a record that fits a batch
        # equal in size, equally many per lane, at most `window_chunks` each; a few at least if there are enough chunks
        enough = -(-reader.chunks // (config.lanes * config.window_chunks))  # per lane
        self.windows = config.lanes * min(max(enough, WINDOWS_A_LANE), reader.chunks // config.lanes)
        self._orders: dict[int, NDArray[np.int64]] = {}  # of the lanes' current epochs

    def chunks_of(self, epoch: int, number: int) -> list[int]:
        if epoch not in self._orders:
            self._orders = {
                planned_epoch: order for planned_epoch, order in self._orders.items() if planned_epoch >= epoch - 1
            }
            self._orders[epoch] = philox_order(self.reader.chunks, self.seed, epoch)
        first, last = (edge * self.reader.chunks // self.windows for edge in (number, number + 1))
        chunks: list[int] = self._orders[epoch][first:last].tolist()
        return chunks


def check_lanes(lanes: int, world: int) -> None:
    """Raises UserError if `world` ranks cannot share the lanes evenly."""
    if lanes < 1 or lanes % world != 0:
        divisors = [str(ranks) for ranks in range(1, lanes + 1) if lanes % ranks == 0]
        raise UserError(
            f"loader.lanes={lanes}: {world} ranks cannot share {lanes} lanes evenly. Choices: "
            + (f"cluster.workers={'|'.join(divisors)}, or for a new run " if divisors else "")
            + f"loader.lanes={world}|{2 * world}|{3 * world}..., loader.lanes=0 (one a rank, two at least)"
        )


def check_chunks(reader: ShardReader, lanes: int) -> None:
    """Raises UserError if a split is empty, or has fewer chunks than lanes."""
    if reader.records == 0:
        raise UserError(f"{reader.directory}: the split {reader.split!r} holds no records")
    if reader.chunks < lanes:
        raise UserError(
            f"loader.lanes={lanes}: the split {reader.split!r} has only {reader.chunks} chunks "
            f"({reader.records} records); take at most {reader.chunks} lanes, and so many ranks (cluster.workers)"
        )
