"""The exceptions that are said in a line: the user asked for what cannot be, or what we depend on failed."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake of the person at the keyboard. Its message names the key or file, the value and the choices.

    Every command ends with exit code 2 on it and prints the message without a traceback. Any other exception is a
    fault of the program or the machine and ends with exit code 1.
    """


class ServiceError(Exception):
    """The command was right, and something outside of it failed, for example a server that is gone.

    Its message names what failed and what to do. A command ends with exit code 1 on it, without a traceback."""


def unknown(what: str, value: object, choices: Iterable[object]) -> UserError:
    """Returns the error for a value that is none of `choices`, with the nearest one suggested."""
    names = sorted(str(choice) for choice in choices)
    near = get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(f"{what}: {str(value)!r} is not known.{hint} Choices: {', '.join(names) or 'none'}")


def interrupt_in(problem: BaseException | None) -> KeyboardInterrupt | None:
    """Returns the interrupt: `problem` itself, or the cause of an ImportError that a compiled module raised for it."""
    for one in (problem, problem and problem.__cause__):
        if isinstance(one, KeyboardInterrupt):
            return one
    return None


def reason(problem: Exception) -> str:
    """Returns its first line, and the system's own error where another line has that (MLflow)."""
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return " ".join(line[:300] for line in [lines[0], *[line for line in lines[1:] if "[Errno" in line][:1]])
