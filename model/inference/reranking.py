"""Reranking n-best lists: a weighted sum of three features, its weights found on a grid for corpus BLEU.

The features of a hypothesis are the other system's score, ours, and its length in words.

Letters: L lists (sentences), N hypotheses of all lists, F = 3 features, K BLEU's statistics.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import bleu

Numbers = NDArray[np.float64]
OURS = np.linspace(0.0, 1.0, 21)  # weights of our score; the other system's has the rest
LENGTHS = np.linspace(-1.0, 1.0, 21)  # weights of a word beside them


@dataclass(frozen=True)
class Lists:
    """The n-best lists of a corpus, list after list."""

    features: Numbers  # (N, F)
    statistics: NDArray[Any]  # (N, K) of each hypothesis against its reference
    offsets: NDArray[np.int64]  # (L + 1,) list l holds hypotheses offsets[l] : offsets[l + 1]; none is empty

    def __post_init__(self) -> None:
        if not len(self.offsets) > 1 or (np.diff(self.offsets) < 1).any():
            raise UserError("reranking: there must be a list, and a hypothesis in every list")
        if not np.isfinite(self.features).all():
            raise UserError("reranking: every feature must be a finite number")

    def bleu(self, weights: Numbers) -> float:
        """Returns corpus BLEU of the hypotheses that these weights (F,) choose."""
        return float(bleu(self.statistics[winners(self.features @ weights, self.offsets)].sum(0)))

    def match_lengths(self) -> "Lists":
        """Returns the same lists against references whose total length equals that of the lists' first hypotheses.

        BLEU then takes no penalty for the search's own length and gives no gain for another. The length ratio differs
        between corpora by a few percent; the matching n-grams stay the same.
        """
        length, references = self.statistics[self.offsets[:-1], -2:].sum(0)
        if not length or not references:
            return self
        statistics = self.statistics.astype(np.float64)
        statistics[:, -1] *= length / references
        return replace(self, statistics=statistics)


def winners(scores: Numbers, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) -> (L,): the best hypothesis of each list; the first of equal ones."""
    best = np.repeat(np.maximum.reduceat(scores, offsets[:-1]), np.diff(offsets))
    rows = np.where(scores == best, np.arange(len(scores)), len(scores))
    return np.minimum.reduceat(rows, offsets[:-1])


def deviations(lists: Lists) -> Numbers:
    """Returns (F,): each feature's standard deviation within the lists, pooled; 1 if it never differs.

    Only differences within a list affect the choice; dividing by their size makes the weights comparable.
    """
    sizes = np.diff(lists.offsets)
    means = np.add.reduceat(lists.features, lists.offsets[:-1], axis=0) / sizes[:, None]  # (L, F)
    scale = np.sqrt(np.mean((lists.features - np.repeat(means, sizes, axis=0)) ** 2, axis=0))
    return np.where(scale > 1e-12, scale, 1.0)


def tune(lists: Lists) -> Numbers:
    """Returns the weights (F,) with the best BLEU on these lists, whose absolute values sum to 1.

    Tries the other system's score alone, equal weights, and every point of the grid; of equals, the first.
    """
    scales = deviations(lists)
    best = max(candidates(scales), key=lists.bleu)
    weights: Numbers = best / np.abs(best).sum()
    return weights


def candidates(scales: Numbers) -> Iterator[Numbers]:
    """Yields the weights to try, those near to equal weights without a length first."""
    yield np.array([1.0, 0.0, 0.0])
    yield np.array([1.0, 1.0, 0.0])
    points = np.array([(1.0 - ours, ours, length) for ours in OURS for length in LENGTHS])
    for point in sorted(points.tolist(), key=lambda point: abs(point[1] - 0.5) + abs(point[2])):
        yield np.array(point) / scales
