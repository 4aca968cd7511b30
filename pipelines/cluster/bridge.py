"""Connects the command with a first rank on another node: requests go there, progress comes back.

A cluster's nodes may share nothing with the command's machine but a bucket. A mailbox, an actor on the command's
machine, passes on the request in RUN/stop here, and brings the new lines of the run's journal. Before nodes come or go,
the first rank is asked to write a checkpoint.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray import train
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from dragoman.model.files import atomic_write
from dragoman.model.repeated import repeated

BLOCK = 1 << 20  # bytes of a file per exchange
EVERY = 1.0  # seconds between two looks, on either side
NOTICED = 2.0  # seconds between two checks whether a node is about to go away
LAST = 10.0  # seconds for the last lines to come
Have = Mapping[str, tuple[int, int]]  # file name -> (its number, bytes received)
logger = logging.getLogger(__name__)


class Piece(NamedTuple):
    """New bytes of a file in the first rank's folder, for the command's machine."""

    file: int  # changes when another file takes this name
    start: int
    content: bytes


@dataclass(frozen=True)
class BridgeEnds:
    """The functions on both sides of a bridge. The first rank calls `begin`, `ask`, `pause` and `tell`, the command's
    machine the others."""

    begin: Callable[[], None]  # a group of workers starts: requests to the previous one are forgotten
    ask: Callable[[str], None]  # stop for this reason
    pause: Callable[[], None]  # write a checkpoint and end, because a group of another size follows
    tell: Callable[[Have], dict[str, Piece]]  # the new pieces
    asked: Callable[[], str | None]  # the request to the run, if any
    stop: Callable[[str], None]  # request a stop of the run, for a reason
    files: Mapping[str, Path]  # by name, where they are written


class BridgeActor:
    """The messages between both sides: an actor, one for each group of workers."""

    def __init__(self) -> None:
        self._asked: str | None = None
        self._paused = False
        self._pieces: list[tuple[str, Piece]] = []
        self._leaving: int | None = None  # until the first rank trains

    def leave_for_rank(self, asked: str | None, paused: bool) -> None:
        """Called by the command: leaves the request to the run, and whether it must pause."""
        self._asked, self._paused = asked or self._asked, paused or self._paused

    def exchange(self, pieces: Mapping[str, Piece], leaving: int) -> tuple[str | None, bool]:
        """Called by the first rank: leaves pieces and the number of workers about to lose their node; gets requests."""
        self._pieces += pieces.items()
        self._leaving = max(self._leaving or 0, leaving)
        return self._asked, self._paused

    def take(self) -> tuple[list[tuple[str, Piece]], int | None]:
        """Returns what the first rank has left; the number is None before it trains."""
        pieces, self._pieces = self._pieces, []
        return pieces, self._leaving


def open_mailbox() -> Any:
    """Returns the actor, on this node; it ends with the last process that has a handle."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(num_cpus=0)(BridgeActor).options(scheduling_strategy=here, max_concurrency=1).remote()


@dataclass
class Bridge:
    """The command's side, for one group of `size` workers. `sizes`: the allowed sizes, in ascending order."""

    ends: BridgeEnds
    sizes: tuple[int, ...]
    size: int
    mailbox: Any
    room_for: Callable[[int], bool]  # True if so many more workers could start now
    resize_every: float
    _paused: bool = False
    _looked: float = field(default_factory=time.monotonic)

    def carrying(self) -> contextlib.AbstractContextManager[None]:
        """Carries from one side to the other, in a thread, within the block."""
        return repeated(self._carry, EVERY, "bridge", LAST)

    def _carry(self, _last: bool) -> None:
        try:
            self.look()
        except ray.exceptions.RayError as problem:
            logger.debug("the bridge's mailbox: %s", problem)

    def look(self) -> None:
        """Takes what has come and leaves requests."""
        pieces, leaving = ray.get(self.mailbox.take.remote())
        for name, piece in pieces:
            self._keep(name, piece)
        if leaving is None:
            self._looked = time.monotonic()
        elif leaving:
            self.handle_leaving(leaving)
        elif len(self.sizes) > 1 and not self._paused and time.monotonic() - self._looked >= self.resize_every:
            self._looked = time.monotonic()
            self._paused = any(self.room_for(size - self.size) for size in self.sizes if size > self.size)
        ray.get(self.mailbox.leave_for_rank.remote(self.ends.asked(), self._paused))

    def handle_leaving(self, leaving: int) -> None:
        """Reacts to nodes of so many workers going away: continues with the other workers, or ends in order."""
        if len(self.sizes) > 1 and self.size - leaving >= self.sizes[0]:
            self._paused = True
        elif self.ends.asked() is None:
            self.ends.stop(f"a node of its workers is being drained ({leaving} of them)")

    def _keep(self, name: str, piece: Piece) -> None:
        path = self.ends.files[name]
        if piece.start == 0:
            atomic_write(path, piece.content, durable=False)
        else:
            with path.open("ab") as file:
                file.write(piece.content)


@dataclass
class WorkerLink:
    """The workers' side of a bridge."""

    ends: BridgeEnds
    mailbox: Any
    _have: dict[str, tuple[int, int]] = field(default_factory=dict)
    _asked: str | None = None
    _leaving: int = 0

    @contextlib.contextmanager
    def carrying(self, first: bool) -> Iterator[None]:
        """Serves the bridge within the block, in which a worker trains; `first`: it has the run's files."""
        # Ray has all workers answer this question together, so each asks it
        threading.Thread(target=self._notice, name="preemption", daemon=True).start()
        if not first:
            yield
            return
        self.ends.begin()
        with repeated(lambda last: self.exchange(obey=not last), EVERY, "courier", LAST):
            yield

    def _notice(self) -> None:
        while True:
            notice = train.get_preemption_info()
            self._leaving = 0 if notice is None else len(notice.preempted_ranks)
            time.sleep(NOTICED)

    def exchange(self, obey: bool) -> None:
        """Leaves new pieces of the run's files, and obeys requests while the worker still trains."""
        while True:
            pieces = self.ends.tell(self._have)
            for name, piece in pieces.items():
                self._have[name] = (piece.file, piece.start + len(piece.content))
            reason, paused = ray.get(self.mailbox.exchange.remote(pieces, self._leaving))
            if obey and reason is not None and reason != self._asked:
                self.ends.ask(reason)
                self._asked = reason
            if obey and paused:
                self.ends.pause()
            if not any(len(piece.content) >= BLOCK // 2 for piece in pieces.values()):
                return


def new_pieces(folder: Path, have: Have, names: tuple[str, ...]) -> dict[str, Piece]:
    """Returns the new pieces of the files `names` of `folder`; of a growing file only whole lines."""
    pieces = {}
    for name in names:
        try:
            with (folder / name).open("rb") as file:
                number = os.fstat(file.fileno()).st_ino
                sizes_before, size = have.get(name, (0, 0))
                start = size if sizes_before == number else 0
                file.seek(start)
                content = file.read(BLOCK)
        except FileNotFoundError:
            continue
        if name.endswith(".jsonl"):
            content = content[: content.rfind(b"\n") + 1]
        if content:
            pieces[name] = Piece(number, start, content)
    return pieces
