"""The one exception of the package, and what becomes it."""

import contextlib
from collections.abc import Iterator

from model.errors import ServiceError, UserError


class DragomanError(Exception):
    """What was asked for cannot be done. Its message names the setting or file, the value and the choices.

    `mistake` says whose it is: True of the call, False of something outside of it, such as a server that does not
    answer. The command line ends with exit code 2 or 1 in these cases, with the same message.
    """

    def __init__(self, message: str, mistake: bool = True) -> None:
        super().__init__(message)
        self.mistake = mistake


@contextlib.contextmanager
def one_exception() -> Iterator[None]:
    """A block whose errors that are said in a line are DragomanError."""
    try:
        yield
    except UserError as problem:
        raise DragomanError(str(problem)) from problem
    except ServiceError as problem:
        raise DragomanError(str(problem), mistake=False) from problem
    except OSError as problem:
        if problem.filename is None:  # of no file: a mistake of ours
            raise
        raise DragomanError(f"{problem.filename}: {problem.strerror or problem}", mistake=False) from problem
