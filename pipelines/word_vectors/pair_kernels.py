"""The inner loops of counting pairs as machine code; import it only where they run."""

import numpy as np
from numpy.typing import NDArray

from dragoman.model.word_vectors.compiled import compiled

Longs = NDArray[np.int64]


@compiled
def count_pairs(
    rows: NDArray[np.int32],  # (n,)
    offsets: Longs,  # (records + 1,)
    start: int,
    window: int,
    symmetric: bool,
    units: Longs,  # (window,) weight by distance - 1
    dense: Longs,
    places: Longs,  # (V,) cell (i, j) is dense[places[i] + j]
    stops: Longs,  # (V,) if j is below this
    bits: int,
    buffer: Longs,  # other pairs: cell << bits | distance - 1
    filled: int,
) -> tuple[int, int]:
    """Counts the words before each word from `start` on; returns (first uncounted word or n, size of the buffer)."""
    vocabulary = len(stops)
    record = np.searchsorted(offsets, start, side="right") - 1
    for at in range(start, len(rows)):
        while offsets[record + 1] <= at:
            record += 1
        first = max(offsets[record], at - window)
        if filled + at - first > len(buffer):
            return at, filled
        word = rows[at]
        for near in range(first, at):
            i, j, far = word, rows[near], at - near - 1
            if symmetric and j < i:
                i, j = j, i
            if j < stops[i]:
                dense[places[i] + j] += units[far]
            else:
                buffer[filled] = ((np.int64(i) * vocabulary + j) << bits) | far
                filled += 1
    return len(rows), filled


@compiled
def hand_out(
    dense: Longs,
    low: Longs,  # (V,) first column of a row
    places: Longs,  # (V,)
    stops: Longs,  # (V,)
    buffer: Longs,  # (n,) sorted
    bits: int,
    units: Longs,  # (window,)
    state: Longs,  # (3,) row, column and place in the buffer to resume from
    out: Longs,  # (m, 2) cells in rising order and their units
) -> int:
    """Fills `out` with the next cells and clears them from the dense part; returns their number."""
    vocabulary, mask, taken = len(stops), (1 << bits) - 1, 0
    row, column, place = state[0], state[1], state[2]
    while row < vocabulary and taken < len(out):
        while column < stops[row] and taken < len(out):
            counted = dense[places[row] + column]
            if counted:
                out[taken, 0], out[taken, 1] = row * vocabulary + column, counted
                dense[places[row] + column] = 0
                taken += 1
            column += 1
        end = (row + 1) * vocabulary
        while place < len(buffer) and buffer[place] >> bits < end and column >= stops[row] and taken < len(out):
            cell, counted = buffer[place] >> bits, 0
            while place < len(buffer) and buffer[place] >> bits == cell:
                counted += units[buffer[place] & mask]
                place += 1
            out[taken, 0], out[taken, 1] = cell, counted
            taken += 1
        if column >= stops[row] and not (place < len(buffer) and buffer[place] >> bits < end):
            row += 1
            if row < vocabulary:
                column = low[row]
    state[0], state[1], state[2] = row, column, place
    return taken
