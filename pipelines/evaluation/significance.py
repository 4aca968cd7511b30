"""Tests whether one model is better than another, by paired approximate randomisation.

If two models are equally good, the answers that both gave to an item might as well be exchanged. So the difference of
their scores is compared with those after exchanging the answers of random items (Noreen 1989; Riezler and Maxwell
2005). Of n trials, r differ at least as far: p = (r + 1) / (n + 1), two-sided. This holds for any number of items,
where bootstrap resampling calls too many equal models different if there are few.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.model.inference.bleu import tokeniser
from dragoman.pipelines.evaluation.metrics import LABELS, check_counts, scorer

Floats = NDArray[np.float64]
Metric = Literal["bleu", "chrf"]
SEED = 12345  # as sacreBLEU's, so that the result is always the same
BLOCK = 1 << 22  # exchanges in memory
TOLERANCE = 1e-9  # differences closer than this are equal


@dataclass(frozen=True)
class Significance:
    """The difference of two models on one set, and how likely it is by chance."""

    metric: str
    baseline: float  # score of the whole set
    candidate: float
    p_value: float  # probability of such a difference between equal models, two-sided
    trials: int
    items: int
    unit: str = "sentences"
    lower_is_better: bool = False
    signature: str = ""

    @property
    def difference(self) -> float:
        """Returns candidate minus baseline."""
        return self.candidate - self.baseline

    def line(self, candidate: str = "", baseline: str = "") -> str:
        """Returns the scores of the two models, named if they have names, and their difference."""
        digits = 2 if self.signature else 4
        return (
            f"{self.metric}{candidate} {self.candidate:.{digits}f} against{baseline} {self.baseline:.{digits}f}: "
            f"{self.difference:+.{digits}f} on {self.items:,} {self.unit} (p = {self.p_value:.4f}, {self.trials:,} "
            f"random exchanges){f' {self.signature}' if self.signature else ''}"
        )

    __str__ = line


def compare_translations(
    baseline: Sequence[str],
    candidate: Sequence[str],
    references: Sequence[str],
    language: str = "en",
    tokenize: str = "auto",
    trials: int = 1000,
    metric: Metric = "bleu",
) -> Significance:
    """Tests two systems' corpus BLEU or chrF, by sacreBLEU; `language` is the target's."""
    check_counts(baseline, references)
    check_counts(candidate, references)
    sacre = scorer(metric, tokeniser(tokenize, language))
    before, after = sentence_statistics(sacre, [baseline, candidate], references)
    score = score_of_sums(sacre)
    total, gain = np.stack([before.sum(axis=0), after.sum(axis=0)]), after - before
    scores = [score(sums) for sums in total]
    drawn = [
        score(total[1] - moved) - score(total[0] + moved)
        for exchanged in random_exchanges(len(references), trials)
        for moved in exchanged @ gain
    ]
    return Significance(
        metric=LABELS[metric],
        baseline=scores[0],
        candidate=scores[1],
        p_value=p_value(scores[1] - scores[0], np.array(drawn)),
        trials=trials,
        items=len(references),
        signature=f"{sacre.get_signature()}|ar:{trials}|seed:{SEED}",
    )


def compare_items(
    baseline: Floats,
    candidate: Floats,
    sizes: NDArray[Any],
    metric: str,
    trials: int = 1000,
    unit: str = "records",
    lower_is_better: bool = True,
) -> Significance:
    """Tests two models by their sums of each item (n,), such as losses, over the items' sizes (n,)."""
    gain, size = candidate - baseline, sizes.sum()
    drawn = np.concatenate([gain.sum() - 2 * (exchanged @ gain) for exchanged in random_exchanges(len(gain), trials)])
    before, after = (float(side.sum() / size) for side in (baseline, candidate))
    return Significance(
        metric=metric,
        baseline=before,
        candidate=after,
        p_value=p_value(float(gain.sum()), drawn),
        trials=trials,
        items=len(gain),
        unit=unit,
        lower_is_better=lower_is_better,
    )


def random_exchanges(items: int, trials: int) -> Iterator[Floats]:
    """Yields (draws, items) of 1 for items whose answers are exchanged, else 0; `trials` draws in all."""
    rng, rows = np.random.default_rng(SEED), max(1, BLOCK // items)
    for begin in range(0, trials, rows):
        yield rng.integers(0, 2, (min(rows, trials - begin), items)).astype(np.float64)


def p_value(difference: float, drawn: Floats) -> float:
    """Returns the share of differences at least as far from 0 as the observed one, which counts among them."""
    beyond = int(np.count_nonzero(np.abs(drawn) >= abs(difference) - TOLERANCE * max(1.0, abs(difference))))
    return (beyond + 1) / (len(drawn) + 1)


def score_resampled(
    systems: Sequence[Sequence[str]], references: Sequence[str], tokenize: str, samples: int
) -> tuple[Floats, Floats]:
    """Returns (systems,) BLEU of the whole set and (samples, systems) of sets drawn with replacement, by sacreBLEU.

    `tokenize` is BLEU's tokeniser; the seed is sacreBLEU's (12345, or SACREBLEU_SEED).
    """
    sacre = scorer("bleu", tokenize)
    statistics, score = sentence_statistics(sacre, systems, references), score_of_sums(sacre)
    rng, count = np.random.default_rng(int(os.environ.get("SACREBLEU_SEED", SEED))), len(references)
    sets = [rng.integers(0, count, count) for _ in range(samples)]
    drawn = [[score(each[rows].sum(axis=0)) for each in statistics] for rows in sets]
    return np.array([score(each.sum(axis=0)) for each in statistics]), np.array(drawn)


def sentence_statistics(sacre: Any, systems: Sequence[Sequence[str]], references: Sequence[str]) -> list[Floats]:
    """Returns (sentences, numbers) for each system: what sacreBLEU sums up to score a corpus."""
    gold = [list(references)]
    return [np.asarray(sacre._extract_corpus_statistics(list(system), gold), np.float64) for system in systems]


def score_of_sums(sacre: Any) -> Callable[[Floats], float]:
    """Returns sacreBLEU's function from sums of statistics to a score, as its own tests use it."""
    return lambda sums: float(sacre._compute_score_from_stats(sums.tolist()).score)
