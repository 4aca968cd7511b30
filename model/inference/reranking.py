"""Reranking n-best lists: a weighted sum of features, its weights tuned for corpus BLEU.

Letters: L lists (sentences), N hypotheses of all lists, F features, K BLEU's statistics.

Minimum error rate training (Och 2003): along a line w + g d in weight space the score of a hypothesis is a line in g,
so the best hypothesis of each list changes at few known points, and between two of them corpus BLEU is constant. A line
search is therefore exact: it visits every interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import bleu
from dragoman.model.ranges import Seed, Whole, check_ranges

Numbers = NDArray[np.float64]
GAIN = 1e-6  # BLEU; a smaller gain is no progress
SWEEPS = 50  # through all directions, at most: searches converge long before
REACH = 1.0  # how far beyond the last change of winner a weight may go, in scaled features


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


@dataclass(frozen=True)
class TunerConfig:
    """The search for weights."""

    restarts: Whole = 8  # searches from random weights, beside those from the given ones
    directions: Whole = 4  # random directions of a sweep, beside one for each feature
    seed: Seed = 1


@dataclass(frozen=True)
class Tuned:
    """The weights found, for unscaled features, with absolute values that sum to 1."""

    weights: Numbers  # (F,)
    bleu: float
    scales: Numbers  # (F,) the search divided each feature by these; 1 for one that never differs within a list
    searches: tuple[float, ...]  # the BLEU at the end of each search


def winners(scores: Numbers, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) -> (L,): the best hypothesis of each list; the first of equal ones."""
    best = np.repeat(np.maximum.reduceat(scores, offsets[:-1]), np.diff(offsets))
    places = np.where(scores == best, np.arange(len(scores)), len(scores))
    return np.minimum.reduceat(places, offsets[:-1])


def pool_deviations(lists: Lists) -> Numbers:
    """Returns (F,): each feature's standard deviation within the lists, pooled; 1 if it never differs.

    Only differences within a list affect the choice; dividing by their size makes the weights comparable.
    """
    sizes = np.diff(lists.offsets)
    means = np.add.reduceat(lists.features, lists.offsets[:-1], axis=0) / sizes[:, None]  # (L, F)
    scale = np.sqrt(np.mean((lists.features - np.repeat(means, sizes, axis=0)) ** 2, axis=0))
    return np.where(scale > 1e-12, scale, 1.0)


def tune(lists: Lists, starts: Sequence[Numbers], config: TunerConfig | None = None) -> Tuned:
    """Returns the weights with the best corpus BLEU found; never worse than the best of `starts`, (F,) each.

    Every search follows the features' own directions and some random ones until none gains. The same lists, starts and
    seed give the same weights.
    lists, starts and seed give the same weights.

    Raises UserError: no starting point, or a negative number of searches or directions.
    """
    config = config or TunerConfig()
    check_ranges("tuner", config)
    if not starts:
        raise UserError("reranking: no weights to begin from")
    rng = np.random.default_rng(config.seed)
    scales = pool_deviations(lists)
    scaled = Lists(lists.features / scales, lists.statistics, lists.offsets)
    count = scaled.features.shape[1]
    points: list[Numbers] = [np.asarray(start, np.float64) * scales for start in starts]
    points += list(rng.standard_normal((config.restarts, count)))
    best, reached = points[0], scaled.bleu(points[0])
    ends = []
    for point in points:
        best_weights, value = climb(scaled, point, config.directions, rng)
        ends.append(value)
        if value > reached + GAIN:
            best, reached = best_weights, value
    weights = best / scales
    total = np.abs(weights).sum()
    return Tuned(weights / total if total else weights, reached, scales, tuple(ends))


def climb(lists: Lists, point: Numbers, directions: int, rng: np.random.Generator) -> tuple[Numbers, float]:
    """Runs line searches from `point` (F,), each to the best point of its line, until a whole sweep gains nothing."""
    value = lists.bleu(point)
    for _ in range(SWEEPS):
        before = value
        for direction in [*np.eye(len(point)), *rng.standard_normal((directions, len(point)))]:
            step, candidate = line_search(lists, point, direction)
            moved = point + step * direction
            if (
                candidate > value + GAIN and lists.bleu(moved) > value + GAIN
            ):  # the second: rounding at a narrow interval
                point, value = moved, lists.bleu(moved)
        if value <= before + GAIN:
            break
        point = point / np.abs(point).max()  # same choice; keeps the weights at the size of the directions
    return point, value


def line_search(lists: Lists, point: Numbers, direction: Numbers) -> tuple[float, float]:
    """(g, BLEU): the middle of the interval of g with the best BLEU of point + g direction, the widest of equals.

    Exact: every g at which some list's best hypothesis changes ends an interval, and all intervals are visited.
    """
    from dragoman.model.inference.mert import envelopes  # compiled on first use

    first, later, places = envelopes(lists.features @ point, lists.features @ direction, lists.offsets)
    owner = np.searchsorted(lists.offsets, later, side="right") - 1  # (C,) list of each change
    earlier = np.concatenate([[-1], later[:-1]])
    begins = np.concatenate([[-1], owner[:-1]]) != owner  # the first change of its list
    earlier = np.where(begins, first[owner], earlier)
    order = np.argsort(places, kind="stable")
    change = lists.statistics[later] - lists.statistics[earlier]  # (C, K)
    sums = lists.statistics[first].sum(0) + np.concatenate([np.zeros_like(change[:1]), np.cumsum(change[order], 0)])
    if not len(later):
        return 0.0, float(bleu(lists.statistics[first].sum(0)))
    edges = np.concatenate([[places.min() - 2 * REACH], places[order], [places.max() + 2 * REACH]])
    widths = np.diff(edges)  # (C + 1,) zero where several lists change at once
    values = np.where(widths > 0, np.round(bleu(sums), 9), -1.0)
    best = np.flatnonzero(values == values.max())
    chosen = best[np.argmax(widths[best])]
    return float((edges[chosen] + edges[chosen + 1]) / 2), float(values[chosen])
