"""The one exception that means: the user asked for something that cannot be."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake of the person at the keyboard. Its message names the key or file, the value and the choices.

    Every verb ends with exit code 2 on it and prints the message without a traceback; any other exception is ours
    (or the machine's) and ends with exit code 1.
    """


def unknown(what: str, value: object, choices: Iterable[object]) -> UserError:
    """The error for a value that is none of `choices`, with the nearest one suggested."""
    names = sorted(str(choice) for choice in choices)
    near = get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(f"{what}: {str(value)!r} is not known.{hint} Choices: {', '.join(names)}")
