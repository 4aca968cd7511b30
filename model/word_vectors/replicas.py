"""Each thread's own copies of a table's most used rows, so that threads do not compete for their cache lines.

Every thread writes the rows of frequent words and the nodes near the tree's root. A cache line that two cores write
moves between them at each use, which takes longer than the arithmetic. So a thread moves its own copies, and adds their
changes to the shared rows after about USES uses: at meetings after every MEET windows. Some rows meet each time, some
every second time, every fourth, and so on.

Letters: R rows that have copies.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dragoman.model.word_vectors import tables

Floats: TypeAlias = NDArray[np.float32]
Uses: TypeAlias = NDArray[np.float64]
MEET, USES, MOST = 64, 48, 4096  # windows, uses, the limit of R
STIFFNESS = 0.1  # pull of one use, at rate 1, towards the point where a row's gradient is 0


class Replica(NamedTuple):
    """The first rows of a table, as one thread moves them."""

    own: Floats  # (R, W)
    before: Floats  # (R, W) at their last meeting
    shares: Floats  # (R,) of its moves that a thread adds
    due: NDArray[np.int64]  # (levels,) the number of rows that meet every 1, 2, 4, ... meetings
    shift: int  # start of `own`, in numbers from the start of the table


class Copies:
    """The memory of one thread's copies, reused for each segment."""

    def __init__(self, table: Floats) -> None:
        rows = min(MOST, len(table))
        self._own, self._before = (tables.zeros(rows, table.shape[1]) for _ in range(2))

    def of(self, table: Floats, plan: "Plan") -> Replica:
        """Copies the first rows as they are now."""
        rows = len(plan.shares)
        own, before = self._own[:rows], self._before[:rows]
        own[:] = table[:rows]
        before[:] = own
        return Replica(own, before, plan.shares, plan.due, (own.ctypes.data - table.ctypes.data) // own.itemsize)


class Plan(NamedTuple):
    """The rows of a table that get copies, and when and how they meet."""

    shares: Floats  # (R,)
    due: NDArray[np.int64]  # (levels,)

    @classmethod
    def of(cls, uses: Uses, windows: float, threads: int, lr: float) -> "Plan":
        """`uses` of the first rows per window, falling; `windows` of the segment. One thread makes no copies.

        Rows move to where their gradients are 0; m steps leave exp(-m s) of the distance, with s = STIFFNESS lr. At a
        meeting each of n threads alone has covered 1 - exp(-m s) of it, and all of them in turn would have covered
        1 - exp(-n m s). So they add that in total: if little has moved all of their moves, if all have arrived the
        mean.
        """
        levels = int(np.log2(max(windows / threads / MEET, 1))) if threads > 1 else 0
        between = MEET * 2.0 ** np.arange(levels)  # windows
        due = np.searchsorted(-uses, -USES / between, side="right")  # (levels,) rising
        rows = np.arange(due[-1] if levels else 0)
        settled = STIFFNESS * lr * uses[: len(rows)] * between[np.searchsorted(due, rows, side="right")]
        settled = np.maximum(settled, 1e-9)
        added = np.expm1(-threads * settled) / (threads * np.expm1(-settled))
        return cls(added.astype(np.float32), due.astype(np.int64))
