"""Splits a segment between threads; all write the same tables without locks (Recht et al. 2011).

Two threads seldom write a rare row at once; if they do an update is lost, which stochastic gradient descent forgives.
Of frequent rows each thread has a copy (replicas.py).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np

from dragoman.model.word_vectors.learner import Text

T = TypeVar("T")
LEAST = 1000  # tokens; a smaller part is not worth a thread


def shares(text: Text, threads: int) -> list[Text]:
    """Splits the text into at most `threads` parts with equal tokens; a record at a cut becomes two."""
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
    """Threads that wait for the next segment, since starting one takes as long as training on a thousand words."""

    def __init__(self) -> None:
        self._pool, self._size = ThreadPoolExecutor(1, "word-vectors"), 1  # starts threads on demand

    def work(self, work: Callable[[int, Text], T], parts: Sequence[Text]) -> list[T]:
        """Runs `work(number, part)` on every part at once, the first in this thread; the work must release the GIL."""
        if len(parts) - 1 > self._size:
            self._pool.shutdown()
            self._pool, self._size = ThreadPoolExecutor(len(parts) - 1, "word-vectors"), len(parts) - 1
        others = [self._pool.submit(work, number, part) for number, part in enumerate(parts[1:], 1)]
        return [work(0, parts[0]), *(other.result() for other in others)]
