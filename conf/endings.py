"""The end of a command: turns any exception into a message and an exit code, only here."""

import atexit
import contextlib
import errno
import io
import os
import select
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from dragoman.conf.interrupts import Ending, Interrupted, hear_signals
from dragoman.model.errors import ServiceError, UserError, interrupt_in, is_infrastructure

OK, FAILED, USER_MISTAKE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141  # exit codes
UNAVAILABLE = 69  # a server, a disk or the cluster has failed (EX_UNAVAILABLE): the same command may succeed later
UNUSABLE = {  # errors of the system that a restart does not mend
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
    errno.ENAMETOOLONG,
}
FULL = "free some space, then start again: it goes on"
ADVICE = {  # what to do about an error of the system
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EACCES: "give yourself the permission, or name another place",
    errno.EPERM: "give yourself the permission, or name another place",
    errno.EROFS: "name a place that can be written",
    errno.ENOENT: "name one that exists",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.EISDIR: "it is a folder; name a file",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "its symbolic links lead round in a circle",
    errno.EMFILE: "raise the limit of open files: ulimit -n 65536",
    errno.ENFILE: "the machine has too many open files: close some programs, then start again",
    errno.ENOMEM: "the machine is out of memory: close some programs, then start again",
    errno.EIO: "the disk or the network that it is on fails; look at the system's log",
    errno.EADDRINUSE: "another program listens there: name another port, or end that program",
}


def run_process(work: Callable[[], int]) -> NoReturn:
    """Runs the work of this process and ends it with the exit code that the work returns.

    Signals are handled from here to the last moment. Python removes its handlers before it ends, and a signal would
    then kill a process that has finished its work; so the process ends right before that.
    """
    ending = hear_signals()
    atexit.register(_leave, ending)  # registered first, called last
    try:
        code = work()
        if code == OK and ending.waits is not None:  # the work ended before the signal's import did
            raise ending.first(ending.waits)
        ending.code = code
    except (Exception, KeyboardInterrupt) as problem:  # such as a signal just after the work has returned
        ending.begun = True
        ending.code = end("", problem)
    sys.exit(ending.code)


def _leave(ending: Ending) -> None:
    """Ends the process at once if its exit code is known."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # the reader is gone, the disk is full, or it is closed
                stream.flush()
    if ending.code is not None:
        os._exit(ending.code)


def end(verb: str, problem: BaseException, hint: str = "") -> int:
    """Prints why a command ends and returns its exit code. `hint` is added if a file cannot be used.

    Raises BrokenPipeError: the reader of our output is gone; the command line ends silently.
    """
    interrupt = interrupt_in(problem)
    if interrupt is not None:
        interrupted = interrupt if isinstance(interrupt, Interrupted) else Interrupted("interrupted", INTERRUPTED)
        return _say(verb, str(interrupted), interrupted.code)
    if isinstance(problem, UserError):
        return _say(verb, str(problem), USER_MISTAKE)
    if isinstance(problem, ServiceError):
        return _say(verb, str(problem), UNAVAILABLE if is_infrastructure(problem) else FAILED)
    if isinstance(problem, BrokenPipeError) and _reader_has_gone():
        raise problem
    if isinstance(problem, OSError):
        mistake = problem.errno in UNUSABLE and problem.filename is not None
        failed = UNAVAILABLE if is_infrastructure(problem) else FAILED
        return _say(verb, describe(problem, hint), USER_MISTAKE if mistake else failed)
    traceback.print_exception(problem)  # an error of ours
    return FAILED


def describe(problem: OSError, hint: str = "") -> str:
    """Returns an error of the system in one line: the file, the system's message, and what to do."""
    place = "" if problem.filename is None else os.fsdecode(str(problem.filename))
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full{f' at {place}' if place else ''}; {FULL}"
    said = problem.strerror or " ".join(str(problem).split()) or type(problem).__name__
    advice = ADVICE.get(problem.errno or 0)
    return f"{f'{place}: ' if place else ''}{said}{f'; {advice}' if advice else ''}{hint if place else ''}"


def close_output() -> None:
    """Lets the interpreter's last flush write to nowhere, because standard output is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(verb: str, text: str, code: int) -> int:
    print(f"dragoman {verb}: {text}" if verb else f"dragoman: {text}", file=sys.stderr)
    return code


def _reader_has_gone() -> bool:
    """Returns True if nobody reads standard output any more; another broken pipe (a server's) is reported."""
    try:
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):  # closed, or a test's
        return True
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in watched.poll(0))
