"""Stopping a training in order: SIGINT or SIGTERM asks for a checkpoint at the next step, a second one ends at once.

The signal reaches the command, and its workers may be processes on other machines: what is asked for is written into
RUN/stop, which all of them see. Rank 0 looks for it at every step and tells the others with the sums of the step, so
that all stop at the same one. The file holds the exit code that the command is to end with.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from conf.compose import Interrupted
from model.files import atomic_write
from pipelines.training import checkpoint

NAME = "stop"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def request_stop(run: Path, code: int) -> None:
    """Ask whoever trains `run` to stop at the next step; its command ends with the exit code `code`."""
    atomic_write(run / NAME, str(code))


def read_request(run: Path) -> int | None:
    """The exit code that a stop was asked for with; None while nobody did."""
    try:
        return int((run / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


class Signals:
    """What a signal does to the command: it raises `Interrupted`, or while workers train asks them to stop."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._received = False
        self._training: Callable[[], bool] = lambda: False

    def received(self, number: int, _: FrameType | None) -> None:
        """The handler."""
        code = 128 + number
        if self._received:
            os._exit(code)
        self._received = True
        request_stop(self.run, code)
        if not self._training():
            raise self.interrupted(code)

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """A block in which workers train: once they do, a signal lets it come to its own end and then interrupts.

        Raises:
            Interrupted: a stop was asked for.
        """
        before = checkpoint.current_attempt(self.run)
        self._training = lambda: checkpoint.current_attempt(self.run) > before  # before that there is nothing to keep
        try:
            yield
        finally:
            self._training = lambda: False
        code = read_request(self.run)
        if code is not None:
            raise self.interrupted(code)

    def interrupted(self, code: int) -> Interrupted:
        """The exception, which says what was kept and how to go on."""
        newest = checkpoint.newest(self.run)
        if newest is None:
            return Interrupted("interrupted before the first checkpoint; the same command begins again", code)
        return Interrupted(f"interrupted; {newest} is kept, and the same command goes on from there", code)


@contextlib.contextmanager
def signals(run: Path) -> Iterator[Signals]:
    """SIGINT and SIGTERM end the block in order. What an earlier start was asked for is forgotten."""
    (run / NAME).unlink(missing_ok=True)
    handler = Signals(run)
    before = {number: signal.signal(number, handler.received) for number in SIGNALS}
    try:
        yield handler
    finally:
        for number, one in before.items():
            signal.signal(number, one)
