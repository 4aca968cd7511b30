"""Runs a line's steps one after the other in processes of this machine."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.conf.interrupts import end_with_parent
from dragoman.model.errors import ServiceError
from dragoman.services.lines.board import Board
from dragoman.services.lines.recipe import Step

Made = Callable[[Step, str], None]  # called after a step, with its job's id


def run_here(steps: Sequence[Step], board: Board, home: Path, logs: Path, held: int, made: Made) -> None:
    """Runs the steps in order, each with its output in a file of `logs`.

    Args:
        home: `paths.root` of every step.
        held: the descriptor of the line's lock. A step holds it too, so that no other line begins beside a step whose
            line was killed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    for step in steps:
        log = logs / f"{step.label}.log"
        board.set(step, "running", str(log), str(log))
        code = _run([sys.executable, "-m", "dragoman", step.verb, *step.words], home, log, held)
        if code:
            board.set(step, "failed")
            raise ServiceError(
                f"step {step.name}: dragoman {step.verb} ended with exit code {code}: {_last(log)} ({log})"
            )
        made(step, "")
        board.set(step, "done")


def _run(command: Sequence[str], home: Path, log: Path, held: int) -> int:
    """Returns the exit code. If this process is interrupted, the command ends first, in order."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "DRAGOMAN_HOME": str(home)},
            pass_fds=(held,),
            start_new_session=True,  # a terminal's Ctrl-C reaches it through us, once
            preexec_fn=end_with_parent,
        )
        try:
            return child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise


def _last(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
