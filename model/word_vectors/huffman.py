"""The Huffman tree over the words: short paths for frequent words (Morin and Bengio 2005; Mikolov et al. 2013a)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PIECE = 65_536  # words processed together


@dataclass(frozen=True)
class HuffmanTree:
    """Every word's path from the root; V words, V - 1 inner nodes.

    Word v passes `nodes[offsets[v]:offsets[v + 1]]` and takes at each the branch in `codes`. Inner nodes are numbered
    by falling weight, the root 0, so that the most visited rows of the output table come first, as for words.
    """

    offsets: NDArray[np.int64]  # (V + 1,)
    nodes: NDArray[np.int32]  # (total length,) inner nodes, root first
    codes: NDArray[np.int8]  # (total length,) 0 or 1

    @classmethod
    def of(cls, counts: NDArray[Any]) -> "HuffmanTree":
        """Returns the optimal prefix code of `counts` (V,), which must fall; V is at least 2."""
        parents, branches = _merge_nodes(np.asarray(counts, dtype=np.int64).tolist())
        words = len(counts)
        depths = np.zeros(2 * words - 1, dtype=np.int64)
        up, level = parents[:words], np.arange(words)
        while len(level):  # all words climb together, one level per turn
            depths[level] += 1
            level, up = level[up != 2 * words - 2], up[up != 2 * words - 2]
            up = parents[up]
        offsets = np.concatenate([[0], np.cumsum(depths[:words])])
        nodes, codes = np.empty(offsets[-1], dtype=np.int32), np.empty(offsets[-1], dtype=np.int8)
        place, here = offsets[1:].copy(), np.arange(words)
        while len(here):
            place -= 1
            up = parents[here]
            nodes[place], codes[place] = 2 * words - 2 - up, branches[here]
            below = up != 2 * words - 2
            place, here = place[below], up[below]
        return cls(offsets, nodes, codes)

    @property
    def longest(self) -> int:
        """Returns the number of inner nodes on the longest path."""
        return int(np.diff(self.offsets).max())

    def visits(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns (V - 1,): for each inner node the summed `weights` (V,) of the words that pass it."""
        counts, lengths = np.zeros(len(weights) - 1), np.diff(self.offsets)
        for first in range(0, len(weights), PIECE):
            words = slice(first, first + PIECE)
            passed = self.nodes[self.offsets[first] : self.offsets[min(first + PIECE, len(weights))]]
            counts += np.bincount(passed, np.repeat(weights[words], lengths[words]), len(counts))
        return counts


def _merge_nodes(counts: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Returns parent and branch of every node but the root: words 0 .. V - 1, then inner nodes in order of creation.

    Merges the two lightest nodes until one is left. Words are in falling order and inner nodes are created in rising
    order, so the lightest is at the end of the first or the head of the second and nothing is sorted.
    """
    words = len(counts)
    weights = counts + [0] * (words - 1)
    parents, branches = np.zeros(2 * words - 1, dtype=np.int64), np.zeros(2 * words - 1, dtype=np.int8)
    word, inner = words - 1, words
    for made in range(words, 2 * words - 1):
        for branch in (0, 1):
            if word >= 0 and (inner >= made or weights[word] < weights[inner]):
                lightest, word = word, word - 1
            else:
                lightest, inner = inner, inner + 1
            parents[lightest], branches[lightest] = made, branch
            weights[made] += weights[lightest]
    return parents, branches
