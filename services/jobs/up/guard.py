"""Ends the processes that a killed `dragoman up` leaves: `python -m dragoman.services.jobs.up.guard MARK FOLDER`.

It waits for the end of its standard input, which comes when `up` has ended, for whatever reason.
"""

import contextlib
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence

import psutil

MARK = "DRAGOMAN_UP"  # the variable: MARK/NAME, of the `up` and of the child
TERM_TIMEOUT = 20.0  # seconds that a process has to end in order
POLL = 0.5  # seconds between two checks of the processes
logger = logging.getLogger(__name__)


def end_marked(mark: str) -> int:
    """Sends SIGTERM to all processes with this mark and their descendants, then SIGKILL; returns their number."""
    warned: set[psutil.Process] = set()
    began = time.monotonic()
    while left := marked(mark):
        waited = time.monotonic() - began
        if waited > TERM_TIMEOUT + 5:
            logger.warning("%d processes do not end: %s", len(left), ", ".join(str(process.pid) for process in left))
            break
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                if waited > TERM_TIMEOUT:
                    process.kill()
                elif process not in warned:
                    process.terminate()
        warned.update(left)
        psutil.wait_procs(left, timeout=POLL)
    return len(warned)


def marked(mark: str) -> list[psutil.Process]:
    """Returns this user's processes that have this mark, and their descendants."""
    user = os.getuid()
    by_pid: dict[int, psutil.Process] = {}
    parents: dict[psutil.Process, int] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real != user or process.status() == psutil.STATUS_ZOMBIE:
                continue
            parents[process] = process.ppid()
            if process.environ().get(MARK, "").startswith(mark):
                by_pid[process.pid] = process
    while more := {
        process.pid: process for process, parent in parents.items() if parent in by_pid and process.pid not in by_pid
    }:
        by_pid |= more
    return list(by_pid.values())


def main(argv: Sequence[str]) -> int:
    """Waits, then ends the processes with this mark and removes the folder of their sockets."""
    mark, folder = argv
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_marked(mark)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
