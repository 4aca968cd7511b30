"""A NumPy file (.npy) that is written row by row, and is there only when whole."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError

Append = Callable[[NDArray[np.float32]], None]


@contextlib.contextmanager
def opened_matrix(path: str, width: int, section: str, key: str = "output") -> Iterator[Append]:
    """A function that appends rows (n, width) in float32; the file gets its name when the block ends without error.

    The number of rows stands at the file's beginning and is written last: NumPy leaves room in the header for it.

    Raises:
        UserError: the file cannot be written; names the setting SECTION.KEY.
    """
    final = Path(path)
    part = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        file = part.open("wb")
    except OSError as problem:
        raise UserError(f"{section}.{key}: {path} cannot be written ({problem.strerror})") from None
    rows = 0

    def header() -> None:
        file.seek(0)
        shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, shape)

    def append(values: NDArray[np.float32]) -> None:
        nonlocal rows
        file.write(np.ascontiguousarray(values, "<f4").tobytes())
        rows += len(values)

    try:
        with file:
            header()
            yield append
            header()
            file.flush()
            os.fsync(file.fileno())
        part.replace(final)
    finally:
        part.unlink(missing_ok=True)
