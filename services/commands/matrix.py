"""A NumPy file (.npy) that is written row by row and appears only when complete."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.model.files import atomic_open
from dragoman.services.commands.output import file_errors

Append = Callable[[NDArray[np.float32]], None]


@contextlib.contextmanager
def open_matrix(path: str, width: int, key: str) -> Iterator[Append]:
    """Yields a function that appends rows (n, width) in float32; the file gets its name when the block ends well.

    The number of rows is at the file's beginning and is written last; NumPy leaves space for it in the header.

    Raises UserError: the file cannot be written; names the setting `key`.
    """
    rows = 0

    def header() -> None:
        file.seek(0)
        shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, shape)

    def append(values: NDArray[np.float32]) -> None:
        nonlocal rows
        file.write(np.ascontiguousarray(values, "<f4").tobytes())
        rows += len(values)

    with contextlib.ExitStack() as stack:
        with file_errors(key, path):
            file = stack.enter_context(atomic_open(Path(path)))
        header()
        yield append
        header()
