"""Vectors of words from their parts (Bojanowski et al. 2017): runs of letters of the word between < and >.

A run is found by its hash in a table of B buckets, as fastText does; equal hashes share a row. d width.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BASIS, PRIME, WORD = 2166136261, 16777619, 0xFFFFFFFF  # of FNV-1a, 32 bits


@dataclass(frozen=True)
class Subwords:
    """The table of the runs, and their lengths in letters."""

    table: NDArray[np.float32]  # (B, d)
    shortest: int
    longest: int

    def vector(self, word: str) -> NDArray[np.float32] | None:
        """Returns (d,), the mean of a word's runs; None if it has none."""
        rows = list(self.rows(word))
        return self.table[rows].mean(0, dtype=np.float64).astype(np.float32) if rows else None

    def rows(self, word: str) -> Iterator[int]:
        letters = [letter.encode("utf-8", "replace") for letter in f"<{word}>"]
        for first in range(len(letters)):
            places = BASIS
            for end in range(first, min(first + self.longest, len(letters))):
                for byte in letters[end]:
                    signed = byte if byte < 128 else byte | 0xFFFFFF00  # fastText's bytes have a sign
                    places = (places ^ signed) * PRIME & WORD
                edge = first == end and first in (0, len(letters) - 1)  # < or > alone
                if end - first + 1 >= self.shortest and not edge:
                    yield places % len(self.table)
