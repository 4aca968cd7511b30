"""The one exception of the package, and the errors that become it."""

import contextlib
from collections.abc import Iterator

from dragoman.model.errors import ServiceError, UserError


class DragomanError(Exception):
    """A request that cannot be fulfilled. Its message names the setting or file, the value and the choices.

    `mistake` is True for a mistake in the call, False for an outside cause, such as a server that does not answer. The
    command line ends with exit code 2 or 1 in these cases, with the same message.
    """

    def __init__(self, message: str, mistake: bool = True) -> None:
        super().__init__(message)
        self.mistake = mistake


@contextlib.contextmanager
def one_exception() -> Iterator[None]:
    """Turns errors with a one-line message into DragomanError within the block."""
    try:
        yield
    except UserError as problem:
        raise DragomanError(str(problem)) from problem
    except ServiceError as problem:
        raise DragomanError(str(problem), mistake=False) from problem
    except OSError as problem:
        if problem.filename is None:  # concerns no file: a fault of the program
            raise
        raise DragomanError(f"{problem.filename}: {problem.strerror or problem}", mistake=False) from problem
