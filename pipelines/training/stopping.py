"""Stopping a training in order: SIGINT, SIGTERM or a request asks for a checkpoint at the next step.

The signal reaches the command, and its workers may be processes on other machines: what is asked for is written into
RUN/stop, which all of them see or are sent. Rank 0 looks for it at every step and tells the others with the sums of the
step, so that all stop at the same one. The file holds the exit code that the command is to end with, and a line that
says why.

A signal ends the command with 128 plus its number. A request comes from what wants a machine back: the run yields, with
the exit code 75 (EX_TEMPFAIL of sysexits.h: try again later). SIGINT comes from a person at a terminal: a second one
does not wait for the checkpoint.

RUN/pause has the workers alone end: a group of another size goes on after them.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from conf.interrupts import SIGNALS, Ending, Interrupted, say
from model.files import atomic_write
from model.runs import attempts, checkpoints
from model.runs.paths import PAUSE, STOP

YIELDED = 75  # exit code


def request_stop(run: Path, code: int = YIELDED, reason: str = "") -> None:
    """Ask whoever trains `run` to stop at the next step; its command ends with the exit code `code`."""
    run.mkdir(parents=True, exist_ok=True)
    atomic_write(run / STOP, f"{code}\n{reason}")


def read_request(run: Path) -> int | None:
    """The exit code that a stop was asked for with; None while nobody did."""
    text = request_text(run)
    return None if text is None else int(text.partition("\n")[0])


def read_reason(run: Path) -> str:
    """Why a stop was asked for; empty where nobody said."""
    return (request_text(run) or "").partition("\n")[2]


def request_text(run: Path) -> str | None:
    """A request as it stands in RUN/stop; None while there is none."""
    try:
        return (run / STOP).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def request_pause(run: Path) -> None:
    """Ask the workers to write a checkpoint at the next step and end, and nobody else to do anything."""
    run.mkdir(parents=True, exist_ok=True)
    atomic_write(run / PAUSE, "")


def is_paused(run: Path) -> bool:
    """Whether the workers were asked to pause."""
    return (run / PAUSE).exists()


def is_asked(run: Path) -> bool:
    """Whether the workers are to end at the next step, for whatever reason."""
    return is_paused(run) or (run / STOP).exists()


class Signals(Ending):
    """What a signal does to the command: it raises `Interrupted`, or while workers train asks them to stop."""

    def __init__(self, run: Path) -> None:
        super().__init__()
        self.run = run
        self._training: Callable[[], bool] = lambda: False
        self._asked = False  # the workers, by a signal

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Ask for the end; raise where no worker trains, or at a second SIGINT."""
        if self._asked and number != signal.SIGINT:
            return  # SIGTERM comes from programs, and often to a whole family of processes that pass it on
        if not self._asked and not self.begun:
            request_stop(self.run, 128 + number, signal.Signals(number).name)
            if self._training():
                self._asked = True
                say("stopping at the next step, with a checkpoint; Ctrl-C (again) does not wait for it")
                return
        super().__call__(number, frame)

    def first(self, number: int) -> Interrupted:
        return self.interrupted(128 + number)

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """A block in which workers train: once they do, a signal lets it come to its own end and then interrupts.

        Raises:
            Interrupted: a stop was asked for.
        """
        before = attempts.current_attempt(self.run)
        self._training = lambda: attempts.current_attempt(self.run) > before  # before that there is nothing to keep
        try:
            yield
        finally:
            self._training = lambda: False
        code = read_request(self.run)
        if code is not None:
            self.begun = True
            raise self.interrupted(code)

    def interrupted(self, code: int) -> Interrupted:
        """The exception, which says what was kept and how to go on."""
        newest, reason = checkpoints.newest(self.run), read_reason(self.run)
        ended = f"interrupted ({reason})" if reason else "interrupted"
        if newest is None:
            return Interrupted(f"{ended} before the first checkpoint; the same command begins again", code)
        return Interrupted(f"{ended}; {newest} is kept, and the same command goes on from there", code)


def forget(run: Path) -> None:
    """What was asked for before."""
    (run / STOP).unlink(missing_ok=True)
    (run / PAUSE).unlink(missing_ok=True)


@contextlib.contextmanager
def signals(run: Path) -> Iterator[Signals]:
    """SIGINT and SIGTERM end the block in order. What an earlier start was asked for is forgotten.

    In another thread than the main one, which alone hears signals, only what is written into RUN/stop ends it.
    """
    forget(run)
    handler = Signals(run)
    if threading.current_thread() is not threading.main_thread():
        yield handler
        return
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield handler
    finally:
        for number, one in before.items():
            signal.signal(number, one)
            if isinstance(one, Ending):
                one.begun = one.begun or handler.begun  # what ends the command must not be disturbed
