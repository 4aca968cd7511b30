"""The inputs of the compiled loop: the rules, the sampling tables, and one thread's work arrays.

Letters: C most rows of the window, T' most targets in whole tiles, W padded width, V words.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dragoman.model.word_vectors import tables
from dragoman.model.word_vectors.huffman import HuffmanTree
from dragoman.model.word_vectors.sampling import AliasTable, as_bits

NO_NOISE = np.empty((0, 2), dtype=np.uint32)
Floats: TypeAlias = NDArray[np.float32]
TILE = 8  # target rows held in registers at a time
HELD = 2  # words whose targets are held at a time: the one that is trained, and the next
NEGATIVE, HIERARCHICAL, SOFTMAX = range(3)
OUTPUTS = {"negative": NEGATIVE, "hierarchical": HIERARCHICAL, "softmax": SOFTMAX}


class Rules(NamedTuple):
    """The numbers of a configuration that the loop needs."""

    cbow: bool
    mean: bool
    output: int  # NEGATIVE, HIERARCHICAL or SOFTMAX
    window: int
    dynamic: bool
    negatives: int


class SamplingTables(NamedTuple):
    """The tables for keeping and drawing words, and for reaching them."""

    keep: NDArray[np.uint32]  # (V,) thresholds for 32 random bits
    noise: NDArray[np.uint32]  # (V, 2) the alias table: threshold, alias; empty without negatives
    offsets: NDArray[np.int64]  # (V + 1,) of the Huffman paths; empty without a tree
    nodes: NDArray[np.int32]  # (total length,)
    signs: Floats  # (total length,) +1 for code 0, -1 for code 1

    @classmethod
    def of(cls, keep: NDArray[np.float64], noise: AliasTable | None, tree: HuffmanTree | None) -> "SamplingTables":
        """`keep` (V,): probabilities; `noise` and `tree`: whatever the output layer needs."""
        return cls(
            as_bits(keep),
            np.stack([as_bits(noise.thresholds), noise.aliases.astype(np.uint32)], axis=1) if noise else NO_NOISE,
            tree.offsets if tree else np.empty(0, np.int64),
            tree.nodes if tree else np.empty(0, np.int32),
            1 - 2 * tree.codes.astype(np.float32) if tree else np.empty(0, np.float32),
        )


class Scratch(NamedTuple):
    """The work arrays of one thread."""

    state: NDArray[np.uint64]  # (1,) of the random number generator
    drawn: NDArray[np.uint64]  # (K,) random numbers for a word's negatives
    kept: NDArray[np.int32]  # (longest record,) rows after subsampling
    spots: NDArray[np.int64]  # (longest record,) starts of these rows in the inputs
    around: NDArray[np.int64]  # (C,) starts of the window's rows
    order: NDArray[np.int64]  # (C,) starts of the rows of `old`
    old: Floats  # (C, W) the window's rows before the update; CBOW: (1, W) their mean
    moved: Floats  # (1, W) CBOW: the change of each
    targets: NDArray[np.int64]  # (HELD T',) starts of the outputs' rows
    signs: Floats  # (HELD T',) +1: yes, -1: no, 0: no target
    errors: Floats  # (C T' / TILE, TILE) scores, then errors: all rows for the first TILE targets, then for the next
    product: Floats  # (2 TILE,) of the likelihoods' inverses, each in [1, 2), and
    powers: NDArray[np.int32]  # (2 TILE,) the powers of two taken out
    counts: NDArray[np.int64]  # (HELD,) targets of each
    radii: NDArray[np.int64]  # (HELD,) of their windows

    @classmethod
    def of(cls, rules: Rules, targets: int, width: int, longest: int) -> "Scratch":
        """Allocates the arrays for at most so many `targets` per word and words per record."""
        lines, size = 2 * rules.window, -(-targets // TILE) * TILE
        made = cls(
            tables.unshared_zeros(1, np.uint64),
            tables.unshared_zeros(rules.negatives if rules.output == NEGATIVE else 0, np.uint64),
            tables.unshared_zeros(longest, np.int32),
            tables.unshared_zeros(longest, np.int64),
            tables.unshared_zeros(lines, np.int64),
            tables.unshared_zeros(lines, np.int64),
            tables.zeros(1 if rules.cbow else lines, width),
            tables.zeros(1, width),
            tables.unshared_zeros(HELD * size, np.int64),
            tables.unshared_zeros(HELD * size, np.float32),
            tables.zeros(-(-size * (1 if rules.cbow else lines) // 16), 16).reshape(-1, TILE),
            tables.unshared_zeros(2 * TILE, np.float32),
            tables.unshared_zeros(2 * TILE, np.int32),
            tables.unshared_zeros(HELD, np.int64),
            tables.unshared_zeros(HELD, np.int64),
        )
        made.product[:] = 1
        made.order[:] = np.arange(lines) * tables.pad_width(width)
        if rules.output == SOFTMAX:  # all words are targets of every word
            made.targets[:] = np.tile(np.minimum(np.arange(size), targets - 1) * tables.pad_width(width), HELD)
        return made

    def begin(self, seed: int, thread: int) -> None:
        """Starts this thread's own random stream."""
        self.state[0] = first_state(seed, thread)


def first_state(seed: int, thread: int) -> int:
    """Returns the start of a thread's stream of 64-bit numbers: far from the others', whatever the seed."""
    return int(np.random.SeedSequence([seed & (2**64 - 1), thread]).generate_state(1, np.uint64)[0])
