"""Verbs in processes of their own, watched by their journals and killed."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from model.runs import journal, paths
from tests.warm import Command


def start_verb(home: Path, *words: str) -> Command:
    """The command line as a user starts it, in a session of its own."""
    return Command(words, {**os.environ, "DRAGOMAN_HOME": str(home)})


def finish(process: Command, code: int = 0) -> str:
    out, _ = process.communicate(timeout=180)
    assert process.returncode == code, out
    return out


def steps(run: Path) -> list[dict[str, Any]]:
    return [line for line in journal.lines(run / paths.STEPS) if "batch" in line]


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.02)


def reached(run: Path, step: int) -> Callable[[], bool]:
    return lambda: any(line["step"] >= step for line in steps(run))


def workers_of(process: Command) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if any("RayTrainWorker" in word for word in child.cmdline()[:1]):
                found.append(child)
        except psutil.Error:
            continue
    return found


def kill_tree(process: Command) -> None:
    """The driver and everything that it has started, at once, without a chance to clean up."""
    for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
        try:
            one.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.communicate(timeout=60)
