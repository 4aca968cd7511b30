"""Runs a job on the cluster: the command as a child process, its record, its log, and requests to it.

    python -m dragoman.services.jobs.runner HOME JOB NUMBER VERB WORD...

The child writes directly to the log, so nothing is lost if a process dies; new output is also copied to standard
output, which Ray keeps. A request or SIGTERM is passed to the child once, which then ends in order. If it was asked to
make room, the exit code is 75. If this process is killed, the child gets SIGTERM.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from dragoman.conf.endings import UNAVAILABLE, describe
from dragoman.conf.interrupts import end_with_parent, handled_by
from dragoman.model.confinement import read_grant, temporary_prefix
from dragoman.model.errors import is_infrastructure
from dragoman.services.jobs.records import YIELDED, Attempt, attempt_of

POLL = 0.2  # seconds between two looks at the child, its log and the requests
IN_ORDER = {128 + signal.SIGTERM, 128 + signal.SIGINT}  # exit codes of a command that ended on request
NOT_BEGUN = 3  # exit code: the attempt belongs to another process
RETRY = 5.0  # seconds until the record is written again that the disk did not take


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command, 75 if it made room, or 69 if a disk keeps it from running."""
    received: list[int] = []  # no signal ends this process before its record is written
    with handled_by(lambda number, _: received.append(number), signal.SIGTERM, signal.SIGINT):
        return _unless_full(lambda: _attempt(argv, received))


def _unless_full(work: Callable[[], int]) -> int:
    """Returns the exit code of `work`, or the one that says that the machine failed, not the command."""
    try:
        return work()
    except OSError as problem:
        if not is_infrastructure(problem):
            raise
        print(describe(problem), file=sys.stderr)
        return UNAVAILABLE


def _attempt(argv: Sequence[str], received: Sequence[int]) -> int:
    home, job, number, *words = argv
    os.umask(0o077)  # a standing cluster was started by another user
    attempt = attempt_of(Path(home), job, int(number))
    descriptor = attempt.hold()
    if descriptor is None or attempt.superseded():
        print(f"{job}: attempt {number} was taken before, or followed by another", file=sys.stderr)
        return NOT_BEGUN
    code = _unless_full(lambda: _run_in_folder(attempt, words, descriptor, received))
    if code in IN_ORDER and attempt.asked() == "yield":
        code = YIELDED
    while True:
        try:
            attempt.write(code=code, ended=time.time())
            return code
        except OSError as problem:  # a full disk must not lose what the command earned
            if received or not is_infrastructure(problem):
                raise
            time.sleep(RETRY)


def _run_in_folder(attempt: Attempt, words: Sequence[str], descriptor: int, received: Sequence[int]) -> int:
    """Runs the command with a folder for its temporary files, and removes what it leaves; returns its exit code."""
    attempt.write(pid=os.getpid(), host=socket.gethostname(), started=time.time())
    # in the system's folder for temporary files, whose path is short enough for a socket's
    prefix = temporary_prefix()
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder
        code = _run(attempt, [sys.executable, "-m", "dragoman.services.jobs.confined", *words], descriptor, received)
    for left in Path(folder).parent.glob(f"{prefix}*"):  # of workers that Ray has ended
        shutil.rmtree(left, ignore_errors=True)
    grant = read_grant()
    for place in grant.write if grant else ():
        with contextlib.suppress(OSError):  # made for the command, which left it empty
            Path(place).rmdir()
    return code


def _run(attempt: Attempt, command: Sequence[str], descriptor: int, received: Sequence[int]) -> int:
    with attempt.log.open("ab") as log, attempt.log.open("rb") as copied:
        # In its own session: Ray's signals to the group reach it only through us, once.
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(descriptor,),
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        is_asked = False
        while child.poll() is None:
            if not is_asked and (received or attempt.asked() is not None):
                child.terminate()
                is_asked = True
            _pass_on(copied)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(POLL)
        _pass_on(copied)
    code = child.returncode
    return code if code >= 0 else 128 - code


def _pass_on(copied: BinaryIO) -> None:
    """Copies the child's output since the last look to our standard output."""
    while block := copied.read(1 << 16):
        sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
