"""GloVe (Pennington, Socher and Manning 2014): vectors whose products approximate the log of co-occurrence counts.

V words, d width, X the co-occurrence matrix. The method fits w_i w~_j + b_i + b~_j to log X_ij over the nonzero entries
(equation 8), weighted by f (equation 9).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.ranges import Amount, Count, Positive, check_ranges
from dragoman.model.word_vectors.learner import sampled_digest
from dragoman.model.word_vectors.tables import draw_table, zeros

Floats = NDArray[np.float32]


@dataclass
class GloveConfig:
    """The defaults are the paper's, except `window` and `width`, where it tries several.

    They suit billions of words. Ten million need x_max=10 and 15 epochs.
    """

    architecture: Literal["glove"] = "glove"
    name: str = "glove"
    width: Count = 100  # d
    window: Count = 15  # words on each side; a pair at distance n counts 1 / n
    symmetric: bool = True  # false: only words on the left are a word's context
    x_max: Positive = 100.0  # co-occurrences from which an entry weighs 1
    alpha: Amount = 0.75  # f(x) = (x / x_max)^alpha below
    min_count: Count = 5  # rarer words get no vector and are dropped from the text
    lr: Positive = 0.05  # of the first step; AdaGrad lowers it

    @property
    def min_lr(self) -> float:
        """Returns the learning rate at the end: unchanged, since the method adds no decay to AdaGrad's."""
        return self.lr


@dataclass(frozen=True)
class Cooccurrences:
    """A run of entries of X in a random order; every nonzero entry is in one run only."""

    words: NDArray[np.int32]  # (n,) i
    contexts: NDArray[np.int32]  # (n,) j
    values: Floats  # (n,) X_ij > 0

    def __len__(self) -> int:
        return len(self.values)

    def digest(self) -> int:
        """Returns the crc32 of some of the words: equal runs have equal digests on any machine."""
        return sampled_digest(self.words)


class Glove:
    """A `Learner` over `Cooccurrences`.

    The step is AdaGrad's (Duchi et al. 2011) on half of equation 8, as in the authors' program: the gradient g of an
    entry, times the rate, over the square root of 1 + the sum of all (rate x g)^2 so far, including g's own. So no
    number moves by more than 1 at once, whatever the text. The sums are tables like the others, so training resumes
    exactly after saving or averaging.
    """

    def __init__(self, config: GloveConfig, counts: NDArray[np.int64], seed: int) -> None:
        """`counts` (V,) of the words, most frequent first; only their number matters."""
        check_ranges("model", config)
        self.config = config
        rows, columns = len(counts), config.width + 1  # the bias is the last column
        self.tables: dict[str, Floats] = {
            "words": draw_table(rows, columns, 2 * seed),  # (V, padded) [w_i, b_i]
            "contexts": draw_table(rows, columns, 2 * seed + 1),  # (V, padded) [w~_j, b~_j]
            "word_squares": zeros(rows, columns),  # (V, padded) AdaGrad's sums and 1
            "context_squares": zeros(rows, columns),
        }
        for name in ("word_squares", "context_squares"):
            self.tables[name].fill(1)

    def train(self, segment: Cooccurrences, lr: float, seed: int, threads: int) -> tuple[float, int]:
        """Makes one pass over the entries; returns (equation 8 summed over them, each before its own step; their
        number).

        Uses the order on disk, which is shuffled already, so `seed` has no effect. Threads share the tables without
        locks (Recht et al. 2011, "HogWild!"); with one thread the result is the same to the bit.
        """
        if not len(segment):
            return 0.0, 0
        if not (np.isfinite(segment.values).all() and segment.values.min() > 0):
            raise UserError("glove: co-occurrences must be numbers above zero; count them again")
        from dragoman.model.word_vectors.glove_kernel import fit_entries

        logarithms, weights = np.log(segment.values), self._weights(segment.values)
        bounds = np.linspace(0, len(segment), max(1, min(threads, len(segment))) + 1).astype(np.int64).tolist()

        def part(first: int, last: int) -> float:
            own, tables = slice(first, last), self.tables
            return fit_entries(
                segment.words[own],
                segment.contexts[own],
                logarithms[own],
                weights[own],
                tables["words"],
                tables["contexts"],
                tables["word_squares"],
                tables["context_squares"],
                self.config.width,
                lr,
            )

        if len(bounds) == 2:
            return part(*bounds), len(segment)
        with ThreadPoolExecutor(len(bounds) - 1) as pool:
            return sum(pool.map(part, bounds[:-1], bounds[1:])), len(segment)

    def vectors(self) -> dict[str, Floats]:
        """Returns vectors (V, d): w + w~, which the paper evaluates (section 4.2); contexts (V, d): w~."""
        d = self.config.width
        contexts = self.tables["contexts"][:, :d].copy()
        return {"vectors": self.tables["words"][:, :d] + contexts, "contexts": contexts}

    def _weights(self, values: Floats) -> Floats:
        """Equation 9: f(x) = (x / x_max)^alpha, at most 1."""
        shares = np.minimum(values / np.float32(self.config.x_max), np.float32(1.0))
        weights: Floats = shares ** np.float32(self.config.alpha)
        return weights
