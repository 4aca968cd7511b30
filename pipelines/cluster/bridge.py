"""Between the command and a first rank on another node: what is asked of the run goes there, how far it is comes back.

Whoever trains on a cluster may share nothing with the command's machine but a bucket. Ray Train's controller stands on
that machine and looks at its workers every other second: it also passes on what stands in RUN/stop here then, and
brings the new lines of the run's journal. Where nodes come or go it has the first rank write a checkpoint first.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import ray
from ray.train.v2._internal.execution.callback import WorkerGroupCallback

from model.files import atomic_write

BLOCK = 1 << 20  # bytes of a file that come at a time
Have = Mapping[str, tuple[int, int]]  # file name -> (which file, bytes of it)


class Piece(NamedTuple):
    """What a file of the first rank's folder has that the command's machine has not."""

    file: int  # another number for another file under this name
    start: int
    content: bytes


@dataclass(frozen=True)
class Ends:
    """What a bridge does on either side. The first rank runs `begin`, `ask`, `pause` and `tell`, the command's machine
    the others."""

    begin: Callable[[], None]  # a group of workers starts: what was asked of the one before is forgotten there
    ask: Callable[[str], None]  # stop for this
    pause: Callable[[], None]  # write a checkpoint and end, for a group of another size follows
    tell: Callable[[Have], dict[str, Piece]]  # what has come since
    asked: Callable[[], str | None]  # what is asked of the run
    stop: Callable[[str], None]  # ask it of the run, for a reason
    files: Mapping[str, Path]  # by name, where they come to


class Bridge(WorkerGroupCallback):  # type: ignore[misc]  # Ray is untyped
    """Of one training. `sizes`: of groups of workers, in ascending order; of more than one where it is elastic.

    Ray copies it into the controller's process, where `active` is the one that has seen the workers start.
    """

    active: "ClassVar[Bridge | None]" = None

    def __init__(self, ends: Ends, sizes: tuple[int, ...]) -> None:
        self.ends, self.sizes = ends, sizes
        self._group: Any = None
        self._delivered: str | None = None
        self._paused = False
        self._have: dict[str, tuple[int, int]] = {}
        self._coming: Any = None

    def after_worker_group_start(self, worker_group: Any) -> None:
        """Another first rank: it has been told nothing, and its files need not go on from what came before."""
        Bridge.active = self
        self._group, self._delivered, self._paused, self._coming, self._have = worker_group, None, False, None, {}
        worker_group.execute_single(0, _run, self.ends.begin)

    def before_worker_group_shutdown(self, worker_group: Any) -> None:
        self._fetch(wait=2.0)
        self._group = None

    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:
        """Every other second, and without waiting for the first rank's answer."""
        leaving = worker_group_status.get_preemption_info()
        if leaving is not None:
            self._leave(leaving)
        asked = self.ends.asked()
        if asked is not None and asked != self._delivered and self._group is not None:
            self._group.execute_single_async(0, _run, self.ends.ask, asked)
            self._delivered = asked
        self._fetch()

    def pause(self) -> None:
        """Has the workers write a checkpoint and end, once."""
        if self._group is not None and not self._paused:
            self._paused = True
            self._group.execute_single_async(0, _run, self.ends.pause)

    def _leave(self, leaving: Any) -> None:
        """Nodes are to be taken away: on with the workers that stay, or to the end in order."""
        if self._group is None:
            return
        staying = len(self._group) - len(leaving.preempted_ranks)
        if len(self.sizes) > 1 and staying >= self.sizes[0]:
            self.pause()
        elif self.ends.asked() is None:
            self.ends.stop(f"a node of its workers is being drained ({len(leaving.preempted_ranks)} of them)")

    def _fetch(self, wait: float = 0.0) -> None:
        if self._group is None or not self.ends.files:
            return
        try:
            if self._coming is None:
                self._coming = self._group.execute_single_async(0, _run, self.ends.tell, dict(self._have))
            ready, _ = ray.wait([self._coming], timeout=wait)
            if not ready:
                return
            coming, self._coming = self._coming, None
            for name, piece in ray.get(coming).items():
                self._keep(name, piece)
        except ray.exceptions.RayError:  # the first rank has gone: whoever follows it begins anew
            self._coming = None

    def _keep(self, name: str, piece: Piece) -> None:
        path = self.ends.files[name]
        if piece.start == 0:
            atomic_write(path, piece.content, durable=False)
        else:
            with path.open("ab") as file:
                file.write(piece.content)
        self._have[name] = (piece.file, piece.start + len(piece.content))


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Ray asks what it runs for its `__name__`, which a partial function has not."""
    return function(*arguments)


def new_pieces(folder: Path, have: Have, names: tuple[str, ...]) -> dict[str, Piece]:
    """What has come to the files `names` of `folder`; of a file that grows whole lines alone."""
    found = {}
    for name in names:
        try:
            with (folder / name).open("rb") as file:
                number = os.fstat(file.fileno()).st_ino
                known, size = have.get(name, (0, 0))
                start = size if known == number else 0
                file.seek(start)
                content = file.read(BLOCK)
        except FileNotFoundError:
            continue
        if name.endswith(".jsonl"):
            content = content[: content.rfind(b"\n") + 1]
        if content:
            found[name] = Piece(number, start, content)
    return found
