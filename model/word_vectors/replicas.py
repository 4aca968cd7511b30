"""Copies of a table's most used rows, one set a thread: so threads do not take these rows out of each other's caches.

Every thread writes the rows of frequent words and the nodes near the tree's root, and a cache line that two cores write
travels between them at each use, which takes longer than the arithmetic. So a thread moves copies of its own, and adds
what they have moved to the shared rows when it has used them about USES times: at meetings after every MEET windows
(or pairs, where each has negatives of its own), some rows at each of them, some at every second, at every fourth, and
so on. Letters: R rows that have copies.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from model.word_vectors import tables

Floats: TypeAlias = NDArray[np.float32]
Uses: TypeAlias = NDArray[np.float64]
MEET, USES, MOST = 64, 48, 4096  # windows or pairs, uses, R at most
STIFFNESS = 0.1  # of the pull to where a row's gradient is 0: of a use at a rate of 1


class Replica(NamedTuple):
    """The first rows of a table as one thread moves them."""

    own: Floats  # (R, W)
    before: Floats  # (R, W) when they last met
    shares: Floats  # (R,) of its moves that a thread adds
    due: NDArray[np.int64]  # (levels,) how many of the rows meet every 1, 2, 4, ... meetings
    shift: int  # where `own` begins, counted in numbers from where the table begins


class Copies:
    """The memory of one thread's copies, used for one segment after the other."""

    def __init__(self, table: Floats) -> None:
        rows = min(MOST, len(table))
        self._own, self._before = (tables.zeros(rows, table.shape[1]) for _ in range(2))

    def of(self, table: Floats, plan: "Plan") -> Replica:
        """Copies of the first rows as they are now."""
        rows = len(plan.shares)
        own, before = self._own[:rows], self._before[:rows]
        own[:] = table[:rows]
        before[:] = own
        return Replica(own, before, plan.shares, plan.due, (own.ctypes.data - table.ctypes.data) // own.itemsize)


class Plan(NamedTuple):
    """Which rows of a table get copies, and when and how they meet."""

    shares: Floats  # (R,)
    due: NDArray[np.int64]  # (levels,)

    @classmethod
    def of(cls, uses: Uses, windows: float, threads: int, lr: float) -> "Plan":
        """`uses` of the first rows in a window, falling; `windows` of the segment. One thread makes no copies.

        Rows are pulled to where their gradients are 0, and m steps leave exp(-m s) of the way, s = STIFFNESS lr. Each
        thread alone has gone 1 - exp(-m s) of it when they meet, and all of them, one after the other, would have gone
        1 - exp(-n m s): together they add that. Where little has moved they add all of their moves, where all have
        arrived the mean.
        """
        levels = int(np.log2(max(windows / threads / MEET, 1))) if threads > 1 else 0
        between = MEET * 2.0 ** np.arange(levels)  # windows
        due = np.searchsorted(-uses, -USES / between, side="right")  # (levels,) rising
        rows = np.arange(due[-1] if levels else 0)
        settled = STIFFNESS * lr * uses[: len(rows)] * between[np.searchsorted(due, rows, side="right")]
        settled = np.maximum(settled, 1e-9)
        added = np.expm1(-threads * settled) / (threads * np.expm1(-settled))
        return cls(added.astype(np.float32), due.astype(np.int64))
