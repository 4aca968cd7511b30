"""word2vec in plain float64 loops: what the fast kernels are compared with, written to be read and not to be fast.

It makes the same choices of chance from the same seed as one thread of model/word_vectors/kernels.py, so the two agree
to the noise of float32. Letters: C rows of a window, T targets, d width, V words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.word_vectors.huffman import HuffmanTree
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.sampling import AliasTable, as_bits, keep_probability
from dragoman.model.word_vectors.word2vec import Word2VecConfig
from dragoman.model.word_vectors.workspace import TILE, first_state

Floats = NDArray[np.float64]
BITS = 2**64 - 1


class Chance:
    """SplitMix64 (Steele et al. 2014) in whole numbers of any size."""

    def __init__(self, seed: int, thread: int = 0) -> None:
        self.state = first_state(seed, thread)

    def draw(self) -> int:
        """The next 64 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & BITS
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & BITS
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & BITS
        return z ^ (z >> 31)

    def below(self, limit: int) -> int:
        """A whole number from 0 to limit - 1."""
        return ((self.draw() >> 32) * limit) >> 32


@dataclass(frozen=True)
class Window:
    """One word of the text with what surrounds it and what is predicted."""

    centre: int
    around: list[int]  # (C,) rows of the inputs
    targets: list[int]  # (T,) rows of the outputs
    signs: list[int]  # (T,) +1: yes, -1: no; empty for the full softmax


class Reference:
    """A `Word2Vec` with tables (rows, d) of float64 and no padding; the settings mean the same."""

    def __init__(
        self, config: Word2VecConfig, counts: NDArray[Any], inputs: NDArray[Any], outputs: NDArray[Any]
    ) -> None:
        """`counts` (V,); `inputs` (V, d) and `outputs` (V or V - 1, d) are copied."""
        self.config = config
        self.inputs, self.outputs = np.array(inputs, dtype=np.float64), np.array(outputs, dtype=np.float64)
        self.keep = as_bits(keep_probability(counts, config.sample)).tolist()
        self.noise = AliasTable.of(counts, config.exponent)
        self.thresholds = as_bits(self.noise.thresholds).tolist()
        self.tree = HuffmanTree.of(counts)
        most = {"negative": 1 + config.negatives, "hierarchical": self.tree.longest, "softmax": len(counts)}
        self.most_targets = most[config.output]

    def train(self, text: Text, lr: float, seed: int) -> tuple[float, int]:
        """As `Word2Vec.train` on one thread."""
        loss, predictions = 0.0, 0
        for window in self.windows(text, Chance(seed)):
            if window.around:
                loss += self.step(window, lr)
                predictions += 1 if self.config.algorithm == "cbow" else len(window.around)
        return loss, predictions

    def windows(self, text: Text, chance: Chance) -> Iterator[Window]:
        """Subsampling, window sizes and negatives, drawn in this order."""
        for first, last in zip(text.offsets[:-1], text.offsets[1:], strict=True):
            seen = [int(row) for row in text.rows[first:last] if row >= 0]
            kept = [row for row in seen if chance.draw() >> 32 <= self.keep[row]]
            around = self.surroundings(kept, chance)
            for centre, rows in around:
                yield Window(centre, rows, *self.targets(centre, chance))

    def surroundings(self, kept: list[int], chance: Chance) -> Iterator[tuple[int, list[int]]]:
        """Each word with those around it."""
        for place, centre in enumerate(kept):
            radius = self.config.window
            if self.config.dynamic_window:
                radius = 1 + chance.below(self.config.window)
            yield centre, kept[max(0, place - radius) : place] + kept[place + 1 : place + 1 + radius]

    def targets(self, centre: int, chance: Chance) -> tuple[list[int], list[int]]:
        """The centre and its negatives, its Huffman path, or all words."""
        if self.config.output == "softmax":
            return list(range(len(self.outputs))), []
        if self.config.output == "hierarchical":
            path = slice(self.tree.offsets[centre], self.tree.offsets[centre + 1])
            return self.tree.nodes[path].tolist(), [1 - 2 * int(code) for code in self.tree.codes[path]]
        rows = [centre]
        for _ in range(self.config.negatives):
            drawn = chance.draw()
            row = ((drawn >> 32) * len(self.thresholds)) >> 32
            if drawn & 0xFFFFFFFF > self.thresholds[row]:
                row = int(self.noise.aliases[row])
            if row != centre:
                rows.append(row)
        return rows, [1] + [-1] * (len(rows) - 1)

    def step(self, window: Window, lr: float) -> float:
        """One window as one minibatch: scores first, then both sides move by the gradients; its loss before that.

        Every row moves by the other side as it was, and one that stands twice moves twice. Two exceptions save the
        kernel a copy: a negative that is drawn again in a later tile has moved by then, and where all targets fit
        into one tile, so has a word around that stands there again.
        """
        cbow, config = self.config.algorithm == "cbow", self.config
        old = self.inputs[window.around]  # (C, d)
        if cbow:
            old = (old.mean(axis=0) if config.mean else old.sum(axis=0))[None]
        loss, errors = likelihood(old, self.outputs[window.targets], window)  # errors (C, T)
        moved = np.zeros_like(old)
        for first in range(0, len(window.targets), TILE):
            tile = window.targets[first : first + TILE]
            steps = -lr * errors[:, first : first + TILE]  # (C, tile)
            inward = steps @ self.outputs[tile]  # (C, d)
            if self.most_targets <= TILE and not cbow:
                for c, row in enumerate(window.around):
                    old[c] = self.inputs[row]
                    self.inputs[row] += inward[c]
            moved += inward
            np.add.at(self.outputs, tile, steps.T @ old)
        if cbow:
            np.add.at(self.inputs, window.around, np.repeat(moved, len(window.around), axis=0))
        elif self.most_targets > TILE:
            np.add.at(self.inputs, window.around, moved)
        return loss


def likelihood(old: Floats, targets: Floats, window: Window) -> tuple[float, Floats]:
    """-log likelihood of one window and its gradient by the scores old . targets, (C, T).

    Signs: sum of -log sigmoid(sign score); none: -log softmax at the centre, summed over the rows.
    """
    scores = old @ targets.T
    if window.signs:
        signs = np.array(window.signs)
        return float(np.logaddexp(0, -signs * scores).sum()), -signs / (1 + np.exp(signs * scores))
    highest = scores.max(axis=1, keepdims=True)
    logs = scores - highest - np.log(np.exp(scores - highest).sum(axis=1, keepdims=True))  # (C, V)
    errors = np.exp(logs)
    errors[:, window.centre] -= 1
    return -float(logs[:, window.centre].sum()), errors
