"""The exceptions that are said in a line: the user asked for what cannot be, or what we depend on failed."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake of the person at the keyboard. Its message names the key or file, the value and the choices.

    Every command ends with exit code 2 on it and prints the message without a traceback. A fault of the program ends
    with exit code 1, one of the machine with 69. Any function may raise it, so docstrings name other exceptions only.
    """


class ServiceError(Exception):
    """The command was right, and something outside of it failed, for example a server that is gone.

    Its message names what failed and what to do. A command ends with exit code 69 on it, without a traceback."""


class FailedError(ServiceError):
    """A command that this one has started, or a job that it waits for, has failed: it ends with exit code 1."""


# A full disk or table, a lost disk, server or network: what a machine may get over, whatever was asked of it.
NAMES = "ENOSPC EDQUOT EROFS EIO ESTALE ENOMEM EMFILE ENFILE EAGAIN EHOSTUNREACH ENETUNREACH ENETDOWN ETIMEDOUT"
PASSING = {getattr(errno, name) for name in f"{NAMES} ECONNREFUSED ECONNRESET ECONNABORTED EPIPE".split()}


def is_infrastructure(problem: BaseException) -> bool:
    """Returns True if the machine, the cluster or a server has failed: what was asked is right, and is tried again."""
    passing = isinstance(problem, OSError) and (problem.errno in PASSING or isinstance(problem, TimeoutError))
    return passing or (isinstance(problem, ServiceError) and not isinstance(problem, FailedError))


def unknown(what: str, value: object, choices: Iterable[object]) -> UserError:
    """Returns the error for a value that is none of `choices`, with the nearest one suggested."""
    names = sorted(str(choice) for choice in choices)
    near = get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(f"{what}: {str(value)!r} is not known.{hint} Choices: {', '.join(names) or 'none'}")


def no_such_key(section: str, key: str, keys: Iterable[str]) -> UserError:
    """Returns the error for a key that is none of a section's `keys`: the nearest is suggested, else all are named."""
    names = sorted(keys)
    near = get_close_matches(key, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Choices: {', '.join(names) or 'none'}"
    return UserError(f"{f'{section}: ' if section else ''}unknown key: {key!r} is not known. {hint}")


class _Interrupts:
    """The interrupt of this process that was raised, while it ends because of it."""

    raised: KeyboardInterrupt | None = None


def remember_interrupt(interrupt: KeyboardInterrupt | None) -> None:
    """Keeps what a signal's handler raises: compiled code may replace it by an error of its own. None forgets it."""
    _Interrupts.raised = interrupt


def interrupt_in(problem: BaseException | None) -> KeyboardInterrupt | None:
    """Returns the interrupt behind a problem: itself, what it came of, or what a signal's handler raised before it.

    Compiled code that calls Python may report its own error instead: an ImportError of a module, a TypeError of NumPy.
    """
    cause = problem
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None if problem is None else _Interrupts.raised


def reason(problem: Exception) -> str:
    """Returns its first line, and the system's own error where another line has that (MLflow)."""
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return " ".join(line[:300] for line in [lines[0], *[line for line in lines[1:] if "[Errno" in line][:1]])
