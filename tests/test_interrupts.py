"""A signal at a moment at which its exception would do harm waits until that is over."""

import signal
import time
from pathlib import Path

import pytest

from dragoman.conf import interrupts
from dragoman.conf.interrupts import Interrupted, interruptible

SLOW = """
import os, signal, time

def work(done):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.12)  # the handler looks every 0.05 s
    done.append("compiled")
"""


def run_from(file: str, done: list[str]) -> None:
    """Runs code that the interpreter takes for that of a file."""
    namespace: dict[str, object] = {}
    exec(compile(SLOW, file, "exec"), namespace)
    namespace["work"](done)  # type: ignore[operator]


@pytest.mark.parametrize(("file", "finishes"), [("llvmlite/binding.py", True), ("ours.py", False)])
def test_a_signal_in_a_callback_of_the_compiler_waits_for_its_end(file: str, finishes: bool) -> None:
    """An exception in it ends the process with SIGSEGV."""
    done: list[str] = []
    with pytest.raises(Interrupted) as caught, interruptible() as ending:
        run_from(str(Path("/site-packages") / file), done)
        assert ending.waits == signal.SIGTERM
        while True:  # the signal comes again
            time.sleep(0.01)
    assert caught.value.code == 143
    assert done == ["compiled"] * finishes


def test_the_compilers_own_frames_are_known() -> None:
    """numba's compiler still lies where the handler looks for it."""
    binding = pytest.importorskip("llvmlite.binding")
    assert interrupts.COMPILING in binding.__file__
