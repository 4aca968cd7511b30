"""Connects a command with a first rank on another node: requests go there, progress comes back.

A cluster's nodes may share nothing with the command's machine but a bucket. So the request in RUN/stop is passed on to
the first rank's folder, and the new lines of the run's journal come from there. Before nodes come or go, the first rank
is asked to write a checkpoint.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.model.files import atomic_write
from dragoman.model.repeated import repeated
from dragoman.model.runs.paths import ATTEMPT, PAUSE, PRECISION, RAY, STARTS, STEPS, STOP
from dragoman.pipelines.cluster.link import Link, LinkError, Messages, Piece, count_leaving
from dragoman.pipelines.training import stopping

FILES = (STEPS, STARTS, ATTEMPT, PRECISION)  # files of the first rank that the command follows
EVERY = 1.0  # seconds between two looks, on either side
NOTICED = 2.0  # seconds between two checks whether a node is about to go away
LAST = 10.0  # seconds for the last lines to come


@dataclass
class CommandSide:
    """The command's side, for one group of `size` workers. `sizes`: the allowed sizes, in ascending order."""

    run: Path
    sizes: tuple[int, ...]
    resize_every: float
    link: Link | Messages
    size: int
    room_for: Callable[[int], bool]  # True if so many more workers could start now
    _pause: bool = False
    _looked: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        """Takes what has come and leaves requests."""
        pieces, leaving = self.link.take(stopping.request_text(self.run), self._pause)
        for name, piece in pieces:
            self._keep(self.run / name, *piece)
        if leaving is None:
            self._looked = time.monotonic()
        elif leaving and len(self.sizes) > 1 and self.size - leaving >= self.sizes[0]:
            self._pause = True  # the other workers continue
        elif leaving and stopping.request_text(self.run) is None:
            reason = f"a node of its workers is being drained ({leaving} of them)"
            stopping.request_stop(self.run, stopping.YIELDED, reason)
        elif len(self.sizes) > 1 and not self._pause and time.monotonic() - self._looked >= self.resize_every:
            self._looked = time.monotonic()
            self._pause = any(self.room_for(size - self.size) for size in self.sizes if size > self.size)

    def _keep(self, path: Path, start: int, content: bytes) -> None:
        if start == 0:
            atomic_write(path, content, durable=False)
        else:
            with path.open("ab") as file:
                file.write(content)


@dataclass
class RankSide:
    """The first rank's side."""

    run: Path
    link: Link | Messages
    own: bool  # its folder is the command's
    leaving: int = 0  # workers about to lose their node
    _have: dict[str, tuple[int, int]] = field(default_factory=dict)  # file -> (its inode, bytes left for the command)

    def begin(self) -> None:
        """Forgets the requests to the group before; the command's own stays."""
        for request in (PAUSE,) if self.own else (PAUSE, STOP):
            (self.run / request).unlink(missing_ok=True)

    def exchange(self, last: bool) -> None:
        """Leaves new bytes of the run's files, and obeys requests while the worker still trains."""
        request, pause = self.link.exchange({} if self.own else self._new_pieces(), self.leaving)
        if not (last or self.own or request is None):
            code, _, reason = request.partition("\n")
            stopping.request_stop(self.run, int(code), reason)
        if pause and not last:
            stopping.request_pause(self.run)

    def notice(self) -> None:
        """Keeps the number of leaving workers, without end."""
        while True:
            self.leaving = count_leaving()
            time.sleep(NOTICED)

    def _new_pieces(self) -> dict[str, Piece]:
        """Returns the new bytes of the files; of a growing file only whole lines."""
        pieces: dict[str, Piece] = {}
        for name in FILES:
            with contextlib.suppress(FileNotFoundError), (self.run / name).open("rb") as file:
                number = os.fstat(file.fileno()).st_ino
                before, size = self._have.get(name, (0, 0))
                start = file.seek(size if before == number else 0)  # another file has taken the name: from its start
                content = file.read()
                if name.endswith(".jsonl"):
                    content = content[: content.rfind(b"\n") + 1]
                if content:
                    pieces[name] = (start, content)
                    self._have[name] = (number, start + len(content))
        return pieces


def follow_group(
    run: Path, sizes: tuple[int, ...], resize_every: float, link: Link, size: int, room_for: Callable[[int], bool]
) -> contextlib.AbstractContextManager[None]:
    """Serves the command's side within the block."""
    mark = _mark(run, link)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    side = CommandSide(run, sizes, resize_every, link, size, room_for)

    def look(_last: bool) -> None:
        with contextlib.suppress(LinkError):  # the next look tries again
            side.look()

    return repeated(look, EVERY, "command's side", LAST)


@contextlib.contextmanager
def serve_command(run: Path, link: Link, first: bool) -> Iterator[None]:
    """Serves a worker's side within the block; `first`: it has the run's files, which are the newest."""
    side = RankSide(run, link, _mark(run, link).exists())
    threading.Thread(target=side.notice, name="preemption", daemon=True).start()
    if not first:
        yield
        return
    side.begin()
    with repeated(side.exchange, EVERY, "rank's side", LAST):
        yield


def _mark(run: Path, link: Link) -> Path:
    """Returns the file by which a first rank knows the command's own folder."""
    return run / RAY / f"command-{link.name}"
