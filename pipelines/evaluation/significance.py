"""Tests whether a difference is more than chance: intervals, paired resampling, McNemar's test, seeds, Holm.

Resampled test sets are the same for every system, also for systems trained several times.

Resampling sentences tells how a score would differ on other sentences, but not how it would differ after training the
same network from another seed. The second level draws the seeds too. A few seeds drawn with replacement vary too
little, by (S - 1) / S, so their deviations are widened to the unbiased variance of a mean of S (the rescaling bootstrap
of Rao and Wu 1988).
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.model.inference.bleu import tokeniser
from dragoman.pipelines.evaluation.metrics import LABELS, check_counts, scorer

Floats = NDArray[np.float64]
Metric = Literal["bleu", "chrf"]
SEED = 12345  # of resampling, as in sacreBLEU, so that the result is always the same


@dataclass(frozen=True)
class Significance:
    """The difference of two systems on one set, and how likely it is by chance."""

    metric: str
    baseline: float  # score of the whole set
    candidate: float
    difference: float  # candidate - baseline
    mean_difference: float  # of the resampled sets' means
    p_value: float  # probability of such a difference by chance, two-sided; 1.0 if there is none
    samples: int
    signature: str = ""
    test: str = ""
    items: int = 0
    unit: str = "sentences"
    lower_is_better: bool = False

    @classmethod
    def of_drawn(
        cls,
        metric: str,
        baseline: float,
        candidate: float,
        difference: float,
        drawn: Floats,
        exceeds: Callable[[Floats, float], NDArray[np.bool_]] = np.greater,
        **more: Any,
    ) -> "Significance":
        """Returns the test of a difference against (samples,) those of resampled sets.

        The p-value counts how often a drawn difference is further from their mean than the observed one is from 0; one
        is added to both counts, so it is never 0.
        """
        mean = float(drawn.mean())
        beyond = int(np.count_nonzero(exceeds(np.abs(drawn - mean), abs(difference))))
        p_value = (beyond + 1) / (len(drawn) + 1) if difference else 1.0
        return cls(metric, baseline, candidate, difference, mean, p_value, len(drawn), **more)

    def line(self, candidate: str = "", baseline: str = "") -> str:
        """Returns the scores of the two systems, named if they have names, and their difference."""
        if self.signature:
            return (
                f"{self.metric}{candidate} {self.candidate:.2f} against{baseline} {self.baseline:.2f}: "
                f"{self.difference:+.2f} (mean of {self.samples:,} resampled sets {self.mean_difference:+.2f}, "
                f"p = {self.p_value:.4f}) {self.signature}"
            )
        return (
            f"{self.metric} {self.candidate:.4f} against {self.baseline:.4f}: {self.difference:+.4f} "
            f"on {self.items:,} {self.unit} ({self.test}, p = {self.p_value:.4f})"
        )

    __str__ = line

    def turned(self) -> "Significance":
        """Returns the same test of the share of right answers, from that of the wrong ones."""
        return replace(
            self,
            baseline=1.0 - self.baseline,
            candidate=1.0 - self.candidate,
            difference=-self.difference,
            mean_difference=-self.mean_difference,
            lower_is_better=False,
        )


@dataclass
class Interval:
    """A score of a set of sentences and the range of 95 % of resampled sets' scores."""

    score: float
    low: float
    high: float


def interval(
    hypotheses: Sequence[str], references: Sequence[str], metric: Metric, tokenize: str, samples: int = 1000
) -> Interval:
    """Returns corpus BLEU or chrF with the 95 % interval of bootstrap resampling (Koehn 2004), by sacreBLEU.

    The interval is the resampled sets' mean plus and minus half the distance of their 2.5 and 97.5 percentiles.
    `tokenize` is BLEU's tokeniser. The seed is sacreBLEU's, so the result is always the same. One sample or sentence
    gives no interval: low and high equal the score.
    """
    sacre = scorer(metric, tokenize)
    score = sacre.corpus_score(list(hypotheses), [list(references)], n_bootstrap=samples)
    exact = float(score.score)
    if samples < 2 or len(references) < 2:
        return Interval(exact, exact, exact)
    signature = str(sacre.get_signature())
    record = json.loads(score.format(width=6, signature=signature, is_json=True))
    if "confidence_mean" not in record:  # every resampled set scored 0
        return Interval(exact, exact, exact)
    mean, half = float(record["confidence_mean"]), float(record["confidence_var"])
    return Interval(exact, mean - half, mean + half)


def paired_bootstrap(
    baseline: Sequence[str],
    candidate: Sequence[str],
    references: Sequence[str],
    language: str = "en",
    tokenize: str = "auto",
    samples: int = 1000,
    metric: Metric = "bleu",
    more: Sequence[Sequence[str | None]] = (),
) -> Significance:
    """Tests whether two systems' scores differ, by sacreBLEU's own test (Koehn 2004, in Moses' variant).

    Draws `samples` sets with replacement, the same for both systems. The p-value counts how often the resampled
    difference, centred on its mean, exceeds the observed one; one is added to both counts, so it is never 0. The seed
    is sacreBLEU's (12345, or SACREBLEU_SEED), so the result is always the same. Systems of equal score have p = 1,
    where sacreBLEU itself would call identical systems different. `more` are further references: lists as long as
    `references`, None where a line has no more.

    Raises UserError: no sentences, unequal counts, or an unknown tokeniser.
    """
    from sacrebleu.significance import PairedTest

    check_counts(baseline, references)
    check_counts(candidate, references)
    systems: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("candidate", list(candidate))]
    gold: Any = [list(references), *map(list, more)]
    sacre = scorer(metric, tokeniser(tokenize, language), references=gold)
    test = PairedTest(systems, {metric: sacre}, references=None, test_type="bs", n_samples=samples)
    signatures, results = test()
    ((name, (first, second)),) = ((key, values) for key, values in results.items() if key != "System")
    mean: Any = (first.mean, second.mean)  # type: ignore[union-attr]  # results; only the column System holds names
    difference = float(second.score - first.score)  # type: ignore[union-attr]
    return Significance(
        metric=LABELS[metric],
        baseline=float(first.score),  # type: ignore[union-attr]
        candidate=float(second.score),  # type: ignore[union-attr]
        difference=difference,
        mean_difference=float(mean[1] - mean[0]),
        p_value=float(second.p_value or 0.0) if difference else 1.0,  # type: ignore[union-attr]
        samples=samples,
        signature=str(signatures[name]),
        items=len(references),
    )


def paired(
    baseline: NDArray[np.float64],
    candidate: NDArray[np.float64],
    sizes: NDArray[np.int64],
    metric: str,
    samples: int,
    unit: str = "records",
) -> Significance:
    """Tests sums by record (n,) over sizes by record (n,), of which less is better: `samples` sets of records."""
    count, difference = len(sizes), float((candidate - baseline).sum() / sizes.sum())
    gain = candidate - baseline
    drawn = resample(count, samples, lambda rows: gain[rows].sum() / max(1, sizes[rows].sum()))
    before, after = (float(side.sum() / sizes.sum()) for side in (baseline, candidate))
    return Significance.of_drawn(
        metric,
        before,
        after,
        difference,
        drawn,
        np.greater_equal,
        test=f"{samples:,} resampled sets",
        items=count,
        unit=unit,
        lower_is_better=True,
    )


def resample(
    count: int, samples: int, statistic: Callable[[NDArray[np.int64]], Any], seed: int | None = SEED
) -> Floats:
    """Returns (samples, ...) the statistic of `samples` sets of rows, each `count` of 0 to `count` - 1, drawn with
    replacement."""
    rng = np.random.default_rng(seed)
    return np.array([statistic(rng.integers(0, count, count)) for _ in range(samples)], np.float64)


def mcnemar(baseline: NDArray[np.bool_], candidate: NDArray[np.bool_]) -> Significance:
    """Tests two models by the texts (n,) that only one of them has right, exactly and two-sided."""
    from scipy.stats import binomtest

    gained, lost = int((candidate & ~baseline).sum()), int((baseline & ~candidate).sum())
    before, after = float(baseline.mean()), float(candidate.mean())
    return Significance(
        metric="accuracy",
        baseline=before,
        candidate=after,
        difference=after - before,
        mean_difference=after - before,
        p_value=float(binomtest(gained, gained + lost, 0.5).pvalue) if gained != lost else 1.0,
        samples=0,
        test=f"McNemar, {gained:,} gained and {lost:,} lost",
        items=len(baseline),
        unit="texts",
    )


def score_resampled(
    systems: Sequence[Sequence[str]], references: Sequence[str], metric: Metric, tokenize: str, samples: int
) -> tuple[Floats, Floats]:
    """Returns (systems,) scores of the whole set and (samples, systems) of sets drawn with replacement, by sacreBLEU.

    `tokenize` is BLEU's tokeniser; the seed is sacreBLEU's (12345, or SACREBLEU_SEED).
    """
    sacre, gold = scorer(metric, tokenize), [list(references)]
    every = [sacre._extract_corpus_statistics(list(system), gold) for system in systems]  # as in its own test
    exact = [sacre._aggregate_and_compute(each).score for each in every]
    statistics = [np.asarray(each, np.float64) for each in every]  # (sentences, numbers) each

    def scores(rows: NDArray[np.int64]) -> list[float]:
        return [sacre._compute_score_from_stats(each[rows].sum(axis=0)).score for each in statistics]

    seed = int(os.environ.get("SACREBLEU_SEED", "12345"))
    return np.asarray(exact), resample(len(references), samples, scores, seed)


def draw_seeds(drawn: Floats, seed: int = 12345) -> Floats:
    """Returns (samples,) means over drawn seeds, from the (samples, seeds) scores of resampled sets."""
    seeds = drawn.shape[1]
    if seeds == 1:
        return drawn[:, 0]
    rng = np.random.default_rng(seed)
    mean = drawn.mean(axis=1)
    chosen = np.take_along_axis(drawn, rng.integers(0, seeds, drawn.shape), axis=1).mean(axis=1)
    draws: Floats = mean + math.sqrt(seeds / (seeds - 1)) * (chosen - mean)
    return draws


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
    total_variance = sum(share**2 / degrees for share, degrees in shares)
    freedom = variance**2 / total_variance if total_variance else math.inf
    return float(2 * t.sf(abs(difference) / math.sqrt(variance), freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values of a family of tests, corrected so that each may be read by itself (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def compare_drawn(metric: str, exact: Floats, drawn: Floats, count: int) -> Significance:
    """Tests the mean of the systems from `count` on against that of those before it, seeds apart.

    `exact` (systems,) are the scores, `drawn` (samples, systems) those of resampled test sets, the same for all. A
    single seed proves nothing: the p-value is then 1.
    """
    first, second = np.split(exact, [count])
    differences = draw_seeds(drawn[:, count:], seed=2) - draw_seeds(drawn[:, :count], seed=1)
    return Significance(
        metric=metric,
        baseline=float(first.mean()),
        candidate=float(second.mean()),
        difference=float(second.mean() - first.mean()),
        mean_difference=float(differences.mean()),
        p_value=welch_p(differences, first, second) if min(len(first), len(second)) > 1 else 1.0,
        samples=len(drawn),
        signature=f"seeds:{len(first)},{len(second)}|bs:{len(drawn)}",
    )
