"""The upper envelopes of lists of lines, compiled: the hypothesis of each list that wins along a direction."""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def envelopes(
    heights: NDArray[np.float64], slopes: NDArray[np.float64], offsets: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Line i of a list is heights[i] + g slopes[i]; list l owns lines offsets[l] : offsets[l + 1] (at least one).

    Returns (first, winners, starts). `first` (L,): the top line for g towards minus infinity. Then, list by list, every
    change from left to right: `winners` (C,) is the top line from `starts` (C,) on. Of equal lines the first of its
    list wins. The hull is built in the order of the slopes (Macherey et al. 2008, algorithm 1).
    """
    lists = len(offsets) - 1
    first = np.empty(lists, np.int64)
    winners = np.empty(len(heights), np.int64)
    starts = np.empty(len(heights), np.float64)
    changes = 0
    stack = np.empty(len(heights), np.int64)
    begins = np.empty(len(heights), np.float64)
    for each in range(lists):
        low = offsets[each]
        order = np.argsort(slopes[low : offsets[each + 1]], kind="mergesort")
        size = 0
        for place in order:
            line = low + place
            begin = -np.inf
            keep = True
            while size > 0:
                top = stack[size - 1]
                if slopes[line] == slopes[top]:
                    if heights[line] <= heights[top]:
                        keep = False
                        break
                    size -= 1
                    continue
                begin = (heights[top] - heights[line]) / (slopes[line] - slopes[top])
                if begin <= begins[size - 1]:
                    size -= 1
                    begin = -np.inf
                    continue
                break
            if keep:
                stack[size] = line
                begins[size] = begin if size > 0 else -np.inf
                size += 1
        first[each] = stack[0]
        for place in range(1, size):
            winners[changes] = stack[place]
            starts[changes] = begins[place]
            changes += 1
    return first, winners[:changes].copy(), starts[:changes].copy()
