"""Verbs in processes of their own, watched by their journals and killed."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from dragoman.model.runs import journal, paths
from tests.pipelines.ray_cluster import RayCluster
from tests.warm import Command


def start_verb(home: Path, *words: str, ray: RayCluster | None = None) -> Command:
    """The command line as a user starts it, in a session of its own; on this Ray, if any."""
    more = {"DRAGOMAN_HOME": str(home), **(ray.environment if ray else {})}
    return Command((*words, ray.word) if ray else words, {**os.environ, **more})


def finish(process: Command, code: int = 0) -> str:
    out, _ = process.communicate(timeout=180)
    assert process.returncode == code, out
    return out


def steps(run: Path) -> list[dict[str, Any]]:
    return [line for line in journal.lines(run / paths.STEPS) if "batch" in line]


def wait_for(condition: Callable[[], bool], process: "Command | subprocess.Popen[str]", seconds: float = 300.0) -> None:
    """Waits while the process runs. If it ends before, or takes too long, the test fails with all that it printed."""
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            late = "" if process.poll() is not None else f"killed after {seconds:g} s; it has printed:\n"
            pytest.fail(late + kill_tree(process))
        time.sleep(0.02)


def reached(run: Path, step: int) -> Callable[[], bool]:
    return lambda: any(line["step"] >= step for line in steps(run))


def kill_tree(process: "Command | subprocess.Popen[str]", ray: RayCluster | None = None) -> str:
    """Kills a command and all that it has started, without a chance to clean up. Returns what it has printed."""
    if ray is not None:
        ray.kill()
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
    return process.communicate(timeout=60)[0]
