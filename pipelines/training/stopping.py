"""Stops a training in order: SIGINT, SIGTERM or a request asks for a checkpoint at the next step.

The signal reaches the command, and its workers may be processes on other machines: the request is written to RUN/stop,
which all of them see or receive. Rank 0 checks it at every step and tells the others with the sums of the step, so that
all stop at the same step. The file holds the exit code with which the command must end, and a line with the reason.

A signal ends the command with 128 plus its number. A request comes from a program that wants a machine back: the run
yields, with the exit code 75 (EX_TEMPFAIL of sysexits.h: try again later). SIGINT comes from a person at a terminal: a
second one does not wait for the checkpoint.

RUN/pause ends only the workers: a group of another size continues after them.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from dragoman.conf.interrupts import SIGNALS, Ending, Interrupted, handled_by, say
from dragoman.model.files import atomic_write
from dragoman.model.runs import attempts, checkpoints
from dragoman.model.runs.paths import PAUSE, STOP

YIELDED = 75  # exit code


def request_stop(run: Path, code: int = YIELDED, reason: str = "") -> None:
    """Asks the training command of `run` to stop at the next step, with the exit code `code`."""
    run.mkdir(parents=True, exist_ok=True)
    atomic_write(run / STOP, f"{code}\n{reason}")


def read_request(run: Path) -> int | None:
    """Returns the exit code of a request to stop; None without one."""
    text = request_text(run)
    return None if text is None else int(text.partition("\n")[0])


def read_reason(run: Path) -> str:
    """Returns the reason of a request to stop; empty without one."""
    return (request_text(run) or "").partition("\n")[2]


def request_text(run: Path) -> str | None:
    """Returns a request as written in RUN/stop; None without one."""
    try:
        return (run / STOP).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def request_pause(run: Path) -> None:
    """Asks the workers alone to write a checkpoint at the next step and end."""
    run.mkdir(parents=True, exist_ok=True)
    atomic_write(run / PAUSE, "")


def is_paused(run: Path) -> bool:
    """Returns True if the workers were asked to pause."""
    return (run / PAUSE).exists()


def is_asked(run: Path) -> bool:
    """Returns True if the workers must end at the next step, for whatever reason."""
    return is_paused(run) or (run / STOP).exists()


class Signals(Ending):
    """Handles the command's signals: raises `Interrupted`, or, while workers train, asks them to stop."""

    def __init__(self, run: Path) -> None:
        super().__init__()
        self.run = run
        self._training: Callable[[], bool] = lambda: False
        self._asked = False  # True after a signal asked the workers to stop

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Asks for the end; raises if no worker trains, or at a second SIGINT."""
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
        """Within the block workers train: a signal then lets it come to its own end, and interrupts afterwards.

        Raises Interrupted: a stop was asked for.
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
        """Returns the exception, which says what was kept and how to continue."""
        newest, reason = checkpoints.newest(self.run), read_reason(self.run)
        ended = f"interrupted ({reason})" if reason else "interrupted"
        if newest is None:
            return Interrupted(f"{ended} before the first checkpoint; the same command begins again", code)
        return Interrupted(f"{ended}; {newest} is kept, and the same command goes on from there", code)


def forget(run: Path) -> None:
    """Removes earlier requests."""
    (run / STOP).unlink(missing_ok=True)
    (run / PAUSE).unlink(missing_ok=True)


@contextlib.contextmanager
def signals(run: Path) -> Iterator[Signals]:
    """Lets SIGINT and SIGTERM end the block in order. Removes the requests to an earlier start.

    Outside the main thread, which alone receives signals, only a request in RUN/stop ends it.
    """
    forget(run)
    handler = Signals(run)
    if threading.current_thread() is not threading.main_thread():
        yield handler
        return
    outer = [ending for ending in map(signal.getsignal, SIGNALS) if isinstance(ending, Ending)]
    with handled_by(handler, *SIGNALS):
        try:
            yield handler
        finally:
            for ending in outer:
                ending.begun = ending.begun or handler.begun  # the command's end must not be disturbed
