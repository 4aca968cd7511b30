"""A segment cut into shares, one for each thread; all write the same tables without locks (Recht et al. 2011).

Two threads seldom meet in a rare row, and where they do an update is lost, which stochastic gradient descent forgives;
of frequent rows each has a copy (replicas.py).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np

from model.word_vectors.learner import Text

T = TypeVar("T")
LEAST = 1000  # tokens: a smaller share is not worth a thread


def shares(text: Text, threads: int) -> list[Text]:
    """The text in at most `threads` parts of as many tokens each; a record that a cut goes through becomes two."""
    count = max(1, min(threads, len(text) // LEAST))
    if count == 1:
        return [text]
    cuts = np.linspace(text.offsets[0], text.offsets[-1], count + 1).astype(np.int64)
    parts = []
    for first, last in pairwise(cuts):
        inside = text.offsets[(text.offsets > first) & (text.offsets < last)]
        parts.append(Text(text.rows, np.concatenate([[first], inside, [last]])))
    return parts


class ThreadPool:
    """Threads that wait for the next segment: to start one takes as long as to train on a thousand words."""

    def __init__(self) -> None:
        self._pool, self._size = ThreadPoolExecutor(1, "word-vectors"), 1  # which starts threads when work comes

    def work(self, work: Callable[[int, Text], T], parts: Sequence[Text]) -> list[T]:
        """`work(number, part)` of every part at once, the first in this thread; the work must let go of the GIL."""
        if len(parts) - 1 > self._size:
            self._pool.shutdown()
            self._pool, self._size = ThreadPoolExecutor(len(parts) - 1, "word-vectors"), len(parts) - 1
        others = [self._pool.submit(work, number, part) for number, part in enumerate(parts[1:], 1)]
        return [work(0, parts[0]), *(other.result() for other in others)]
