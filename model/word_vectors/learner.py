"""What every method that learns word vectors offers the loop, and the text that it learns from."""

import zlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

DIGESTED = 4096


@dataclass(frozen=True)
class Text:
    """A run of whole records as rows of the tables."""

    rows: NDArray[np.int32]  # (n,) row of each token, -1: left out (the end of a record too)
    offsets: NDArray[np.int64]  # (records + 1,) record r is rows[offsets[r]:offsets[r + 1]]; windows never cross one

    def __len__(self) -> int:
        return len(self.rows)

    def digest(self) -> int:
        """crc32 of some of the rows: equal texts have equal digests on any machine."""
        return sampled_digest(self.rows)


def sampled_digest(numbers: NDArray[np.int32]) -> int:
    """crc32 of at most some 8,000 of the numbers, evenly spaced: what tells segments apart and costs microseconds."""
    some = numbers[:: max(1, len(numbers) // DIGESTED)]
    return zlib.crc32(some.astype("<i4").tobytes())


class Learner(Protocol):
    """Tables and the way they are trained, a segment at a time; nothing else is state.

    So whoever holds the tables, the place in the text and the seed can go on from there, bit for bit on one thread.
    """

    tables: dict[str, NDArray[np.float32]]
    """Name -> (rows, padded width), C-contiguous, rows most frequent first: what ranks average and checkpoints keep."""

    def train(self, segment: Any, lr: float, seed: int, threads: int) -> tuple[float, int]:
        """One pass over `segment` at the learning rate `lr`, in place; (summed loss, number of predictions).

        With one thread the same tables, segment, lr and seed give the same bits.
        """
        ...

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """Unpadded copies for the bundle: "vectors" (V, d) and "contexts" (V or inner nodes, d)."""
        ...
