"""Signals as exceptions: SIGINT and SIGTERM end a command with a line and the exit code 128 plus the signal's number.

The first signal raises `Interrupted` in the main thread, so that everything is ended in order on the way out.
Further ones do not disturb that: SIGTERM often reaches a whole family of processes whose members pass it on. A second
SIGINT prints that a third one ends the process at once. A signal during an import waits for its end: a module that is
half imported stays so, and what ends the command in order may need it.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from dragoman.model.errors import remember_interrupt

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PARENT_DIED = 1  # prctl: the signal that a process gets when its parent dies
DELAY, LONGEST_DELAY = 0.05, 20.0  # seconds that such a signal waits, at a time and altogether
IMPORTING = "<frozen importlib._bootstrap>"  # the file of the frames that import
COMPILING = f"{os.sep}llvmlite{os.sep}"  # of numba's compiler, which ends the process if its callbacks raise


class Interrupted(KeyboardInterrupt):
    """A command was ended by a signal, in order: the message says what was kept, `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Ending:
    """A command's signal handler: the first signal raises `Interrupted`."""

    def __init__(self) -> None:
        self.begun = False  # True after a signal
        self.code: int | None = None  # the exit code, once all work is done: no signal changes it
        self.waits: int | None = None  # a signal that waits for the end of an import
        self._again = 0
        self._delays = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.code is not None:
            os._exit(self.code)
        if self.begun:
            self.hear_again(number)
            return
        if _must_end(frame) and self._delays < LONGEST_DELAY / DELAY:
            self._delays += 1
            self.waits = number
            later = threading.Timer(DELAY, os.kill, (os.getpid(), number))
            later.daemon = True
            later.start()
            return
        self.begun, self.waits = True, None
        interrupt = self.first(number)
        remember_interrupt(interrupt)
        raise interrupt

    def first(self, number: int) -> Interrupted:
        """Returns the exception for the first signal."""
        return Interrupted("interrupted", 128 + number)

    def hear_again(self, number: int) -> None:
        """Handles one more signal while the command ends."""
        if number != signal.SIGINT:
            return
        self._again += 1
        if self._again > 1:
            end_at_once(128 + number)
        say("ending what was begun; Ctrl-C once more ends at once, and leaves MLflow to `dragoman sync`")


def hear_signals() -> Ending:
    """Installs a handler for the rest of the process, for signals that are not ignored, and returns it."""
    handler = Ending()
    for number in heard():
        signal.signal(number, handler)
    return handler


@contextlib.contextmanager
def interruptible() -> Iterator[Ending]:
    """Lets signals end the block in order. Within another such block, or outside the main thread, it does nothing."""
    handler = Ending()
    outer = [ending for ending in map(signal.getsignal, SIGNALS) if isinstance(ending, Ending)]
    if threading.current_thread() is not threading.main_thread() or outer:
        yield outer[0] if outer else handler
        return
    remember_interrupt(None)
    with handled_by(handler, *heard()):
        yield handler


@contextlib.contextmanager
def held_signals(until: str, done: bool = False) -> Iterator[None]:
    """Defers signals to the block's end. `until` says in the message what is waited for.

    `done`: all work is done before the block, so a signal is answered with the message alone. A second SIGINT ends the
    process at once.
    """
    received: list[int] = []

    def hold(number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and signal.SIGINT in received:
            end_at_once(128 + number)
        if not received:
            what = "all is done" if done else "interrupted"
            say(f"{what}, waiting until {until}; Ctrl-C once more ends at once")
        received.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with handled_by(hold, *heard()):
        yield
    if received and not done:
        signal.raise_signal(received[0])


@contextlib.contextmanager
def handled_by(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Iterator[None]:
    """Calls `handler` for these signals within the block."""
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            signal.signal(number, handler)
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def heard() -> list[signal.Signals]:
    """Returns the signals of a command that are not ignored, as SIGINT is in background commands of a shell."""
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def _must_end(frame: FrameType | None) -> bool:
    """Returns True if this code is part of an import, or of a compilation whose callbacks must not raise."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING or COMPILING in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def say(text: str) -> None:
    """Writes a line to standard error from a handler, which may have interrupted a write to the same file."""
    with contextlib.suppress(OSError):
        os.write(2, f"dragoman: {text}\n".encode())


def end_at_once(code: int) -> None:
    """Prints a line and ends this process without anything else."""
    say("interrupted again: ended at once; the same command goes on from what was kept")
    os._exit(code)


def end_with_parent() -> None:
    """Asks for SIGTERM when the parent dies: called in a child before it becomes its command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGTERM)
