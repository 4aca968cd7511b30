"""Seconds of processor time of command lines that only compose or list, before and after in turns.

Part of `python -m bench start [--before FOLDER]`; FOLDER is a checkout of another version with its own .venv.
"""

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

from bench.result import in_turns

LINES = ("--help", "--version", "jobs", "runs", "keys", "train --cfg job")
COMPLETED = "train corpus."  # a line that the shell completes


def python_of(checkout: Path | None) -> list[str]:
    """Returns the command of the interpreter that runs a checkout's Dragoman; this one's without a checkout."""
    return [sys.executable if checkout is None else str(checkout.resolve() / ".venv" / "bin" / "python")]


def processor_seconds(checkout: Path | None, line: str, home: Path) -> float:
    """Returns the user and system time of one command line; its answer and exit code do not matter."""
    words, environment = line.split(), {**os.environ, "DRAGOMAN_HOME": str(home)}
    if line == COMPLETED:
        words = ["--shell-completion", "query=bash"]
        environment["COMP_LINE"] = f"dragoman {line}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [*python_of(checkout), "-m", "dragoman", *words]
    subprocess.run(command, env=environment, cwd=home, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_command_lines(rounds: int, home: Path, before: Path | None) -> None:
    """Prints the lines with the median of `rounds` times, of this version and, if one is given, of the one before."""
    for line in (*LINES, COMPLETED):
        programs = {"now": None} if before is None else {"now": None, "before": before}
        for place in programs.values():
            processor_seconds(place, line, home)  # reads the files from the disk
        times = in_turns(
            rounds,
            **{name: partial(processor_seconds, place, line, home) for name, place in programs.items()},
        )
        shown = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times.items())
        print(f"{line + (' (Tab)' if line == COMPLETED else ''):<22} {shown} of processor time")
