"""Float32 tables with rows that begin on a cache line and fill whole ones, for whole vector loads.

So two threads that write different rows never write the same line.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

LINE = 64  # bytes of a cache line, and of the widest vector register
Number = TypeVar("Number", bound=np.generic)
PIECE = 65_536  # rows drawn together, so that a table of several GB needs no second copy


def pad_width(width: int) -> int:
    """Returns the smallest number of float32 that holds `width` and fills whole cache lines."""
    floats = LINE // 4
    return -(-width // floats) * floats


def zeros(rows: int, width: int) -> NDArray[np.float32]:
    """Returns (rows, pad_width(width)) zeros, C-contiguous, with every row on a cache line."""
    columns = pad_width(width)
    raw = np.zeros(rows * columns * 4 + LINE, dtype=np.uint8)
    first = -raw.ctypes.data % LINE
    return raw[first : first + rows * columns * 4].view(np.float32).reshape(rows, columns)


def unshared_zeros(count: int, kind: type[Number]) -> NDArray[Number]:
    """Returns (count,) zeros that share no cache line with anything else, so that threads do not disturb each other."""
    floats = zeros(1, -(-count * np.dtype(kind).itemsize // 4))
    return floats.reshape(-1).view(kind)[:count]


def draw_table(rows: int, width: int, seed: int, reach: float = 0.5) -> NDArray[np.float32]:
    """Draws a table uniformly from [-reach, reach) / width; the padding is zero and stays zero.

    The original tools of word2vec and GloVe start with a reach of 0.5.
    """
    table, rng = zeros(rows, width), np.random.default_rng([seed, 0x77326376])
    for first in range(0, rows, PIECE):
        piece = table[first : first + PIECE, :width]
        piece[:] = (rng.random(piece.shape, dtype=np.float32) - np.float32(0.5)) * np.float32(2 * reach / width)
    return table
