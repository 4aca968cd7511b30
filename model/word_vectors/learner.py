"""The interface of methods that train word vectors, and the text that they train on."""

import zlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

DIGESTED = 4096


@dataclass(frozen=True)
class Text:
    """A run of whole records as rows of the tables."""

    rows: NDArray[np.int32]  # (n,) row of each token, -1: dropped (the end of a record too)
    offsets: NDArray[np.int64]  # (records + 1,) record r is rows[offsets[r]:offsets[r + 1]]; windows never cross one

    def __len__(self) -> int:
        return len(self.rows)

    def digest(self) -> int:
        """Returns the crc32 of some of the rows: equal texts have equal digests on any machine."""
        return sampled_digest(self.rows)


def sampled_digest(numbers: NDArray[np.int32]) -> int:
    """Returns the crc32 of some 8,000 evenly spaced numbers: it tells segments apart and takes microseconds."""
    some = numbers[:: max(1, len(numbers) // DIGESTED)]
    return zlib.crc32(some.astype("<i4").tobytes())


class Learner(Protocol):
    """Tables and their training, one segment at a time; there is no other state.

    So the tables, the position in the text and the seed are enough to resume, exactly on one thread.
    """

    tables: dict[str, NDArray[np.float32]]
    """Name -> (rows, padded width), C-contiguous, most frequent first: ranks average them and checkpoints keep them."""

    def train(self, segment: Any, lr: float, seed: int, threads: int) -> tuple[float, int]:
        """Makes one pass over `segment` at the learning rate `lr`, in place; returns (summed loss, predictions).

        With one thread the same tables, segment, lr and seed give the same bits.
        """
        ...

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """Returns unpadded copies for the bundle: "vectors" (V, d) and "contexts" (V or inner nodes, d)."""
        ...
