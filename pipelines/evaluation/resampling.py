"""Scores of resampled test sets, the same sets for every system, also for systems trained several times.

Resampling sentences tells how a score would differ on other sentences, but not how it would differ after training the
same network from another seed. The second level draws the seeds too. A few seeds drawn with replacement vary too
little, by (S - 1) / S, so their deviations are widened to the unbiased variance of a mean of S (the rescaling bootstrap
of Rao and Wu 1988).
"""

import math
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
AT_ONCE = 50  # resampled sets in memory


def score_resampled(
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    metric: Literal["bleu", "chrf"],
    tokenize: str,
    samples: int,
) -> tuple[Floats, Floats]:
    """Returns (systems,) scores of the whole set and (samples, systems) of sets drawn with replacement, by sacreBLEU.

    `tokenize` is BLEU's tokeniser; the seed is sacreBLEU's (12345, or SACREBLEU_SEED).
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer: Any = BLEU(tokenize=tokenize) if metric == "bleu" else CHRF()
    gold = [list(references)]
    every = [scorer._extract_corpus_statistics(list(system), gold) for system in systems]  # as in its own test
    exact = [scorer._aggregate_and_compute(each).score for each in every]
    statistics = [np.asarray(each, np.float64) for each in every]  # (sentences, numbers) each
    drawn = np.empty((samples, len(systems)))
    rng = np.random.default_rng(int(os.environ.get("SACREBLEU_SEED", "12345")))
    for first in range(0, samples, AT_ONCE):
        rows = rng.integers(0, len(references), (min(AT_ONCE, samples - first), len(references)))
        for place, each in enumerate(statistics):
            sums = each[rows].sum(axis=1)
            drawn[first : first + len(rows), place] = [scorer._compute_score_from_stats(one).score for one in sums]
    return np.asarray(exact), drawn


def draw_seeds(drawn: Floats, seed: int = 12345) -> Floats:
    """Returns (samples,) means over drawn seeds, from the (samples, seeds) scores of resampled sets."""
    seeds = drawn.shape[1]
    if seeds == 1:
        return drawn[:, 0]
    rng = np.random.default_rng(seed)
    mean = drawn.mean(axis=1)
    chosen = np.take_along_axis(drawn, rng.integers(0, seeds, drawn.shape), axis=1).mean(axis=1)
    found: Floats = mean + math.sqrt(seeds / (seeds - 1)) * (chosen - mean)
    return found


def welch_p(differences: Floats, before: Floats, after: Floats) -> float:
    """Returns the two-sided p of the difference of mean scores over the seeds `before` (n,) and `after` (m,), n, m >=
    2.

    `differences` (samples,) come from resampled sentences and seeds; their spread is the standard error. The seeds'
    part has only n - 1 and m - 1 degrees of freedom, so Student's t with Satterthwaite's degrees of freedom (1946)
    replaces the resampled distribution, which would call two in ten equal networks different.
    """
    from scipy.stats import t

    difference, variance = float(after.mean() - before.mean()), float(differences.var(ddof=1))
    if not difference:
        return 1.0
    shares = [(float(scores.var(ddof=1)) / len(scores), len(scores) - 1) for scores in (before, after)]
    variance = max(variance, sum(share for share, _ in shares))
    if not variance:
        return 1.0 / (len(differences) + 1)  # no noise: the smallest value that so many samples can show
    known = sum(share**2 / degrees for share, degrees in shares)
    freedom = variance**2 / known if known else math.inf
    return float(2 * t.sf(abs(difference) / math.sqrt(variance), freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values of a family of tests, corrected so that each may be read by itself (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    found, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        found[place] = largest
    return found
