"""Co-occurrence counts in bounded memory: a dense part for frequent pairs, a buffer to sort for the others.

V words, most frequent first; a *cell* is i * V + j. A pair at distance n weighs 1 / n, counted in whole units, so sums
are exact and independent of their order: any memory size and any interruption gives the same bits.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.learner import Text

Longs = NDArray[np.int64]

EXACT_WINDOW = 22  # up to this window 1 / n is a whole number of units for every n
BLOCK = 1 << 18  # cells returned at a time


class PairTable:
    """Counts of cells (i, j), in at most `memory` bytes; symmetric ones are stored once, with i <= j.

    The dense part holds the cells with (i + 1) * (j + 1) up to a limit, as in the GloVe authors' program: by Zipf's law
    these are the frequent ones. Every other pair is a number in the buffer, the cell with the distance in its low bits.
    """

    def __init__(self, vocabulary: int, window: int, symmetric: bool, memory: int) -> None:
        """Raises UserError if vocabulary and window are too large to number the pairs."""
        self.vocabulary, self.window, self.symmetric = vocabulary, window, symmetric
        self.bits = (window - 1).bit_length()
        if vocabulary**2 << self.bits >= 1 << 63:
            raise UserError(f"model.window={window}: too wide for a vocabulary of {vocabulary:,} words")
        self.units = units(window)
        low = np.arange(vocabulary, dtype=np.int64) * symmetric  # (V,) the first column of each row
        self.stops = dense_stops(low, memory // 16)
        sizes = self.stops - low
        self.places = np.cumsum(sizes) - sizes - low  # (V,) of column 0, even if it is not stored
        self.low = low
        self.dense = np.zeros(int(sizes.sum()), np.int64)
        all_dense = len(self.dense) == int((vocabulary - low).sum())
        self.buffer = np.empty(window if all_dense else max(window, memory // 16), np.int64)
        self.filled = 0

    def add(self, text: Text, start: int) -> int:
        """Counts from word `start` on; returns the end of the text, or the word that did not fit the buffer.

        `text` holds no dropped words; those before `start` serve only as neighbours.
        """
        from dragoman.pipelines.word_vectors.pair_kernels import count_pairs

        stop, self.filled = count_pairs(
            text.rows,
            text.offsets,
            start,
            self.window,
            self.symmetric,
            self.units,
            self.dense,
            self.places,
            self.stops,
            self.bits,
            self.buffer,
            self.filled,
        )
        return stop

    def drain(self) -> Iterator[Longs]:
        """Yields all counts as blocks (n, 2) of cells in ascending order and their units; empties the table."""
        from dragoman.pipelines.word_vectors.pair_kernels import hand_out

        self.buffer[: self.filled].sort()
        state = np.array([0, self.low[0], 0], np.int64)  # row, column, place in the buffer
        while True:
            out = np.empty((BLOCK, 2), np.int64)
            taken = hand_out(
                self.dense,
                self.low,
                self.places,
                self.stops,
                self.buffer[: self.filled],
                self.bits,
                self.units,
                state,
                out,
            )
            if not taken:
                break
            yield out[:taken]
        self.filled = 0


def unit(window: int) -> int:
    """Returns the units of an adjacent pair: the least number that 1 to `window` divide, or 2^28 if that is huge.

    Beyond EXACT_WINDOW weights are rounded, by less than a part in 10^6 up to a window of 500. Sums stay below 2^63 for
    up to 3 * 10^10 occurrences of one pair.
    """
    return math.lcm(*range(1, window + 1)) if window <= EXACT_WINDOW else 1 << 28


def units(window: int) -> Longs:
    """Returns (window,) the weight of a pair at distance 1, 2, ..., in units."""
    return np.array([round(unit(window) / distance) for distance in range(1, window + 1)], np.int64)


def dense_stops(low: Longs, cells: int) -> Longs:
    """Returns (V,) the end of each row's dense part, for at most `cells` dense cells: row i has columns below p / i."""
    size = len(low)
    rows = np.arange(1, size + 1, dtype=np.int64)
    first, last = 0, size * size  # the largest product that fits is between them
    while first < last:
        product = (first + last + 1) // 2
        if int(np.maximum(np.minimum(size, product // rows) - low, 0).sum()) <= cells:
            first = product
        else:
            last = product - 1
    return np.maximum(np.minimum(size, first // rows), low)


def drop_left_out(text: Text) -> Text:
    """Returns the same records without words that have no row; their neighbours move together, as in word2vec."""
    kept = text.rows >= 0
    before = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    return Text(text.rows[kept], before[text.offsets])
