"""The progress of a call: the lines that the commands say, where a person watches."""

import contextlib
import logging
import sys
from collections.abc import Iterator

LOGGER = "dragoman"  # the parent of all loggers of the package


@contextlib.contextmanager
def progress_shown(progress: bool | None) -> Iterator[None]:
    """Prints what the block does to standard error. None: on a terminal and in a notebook.

    A program whose logging shows these lines already, or one outer call, is left alone.
    """
    logger = logging.getLogger(LOGGER)
    if not (is_watched() if progress is None else progress) or logger.isEnabledFor(logging.INFO):
        yield
        return
    handler, level = logging.StreamHandler(sys.stderr), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def is_watched() -> bool:
    """Returns True on a terminal and in a notebook."""
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
