"""Compares two language models on a text, by paired bootstrap resampling over its records.

The statistic of plain language models is bits per character of the whole text, with unknown words spelled out, which
works across tokenizers. For masked models it is nats per predicted token; both must predict the same tokens and have
the same unknown ones. Lower is better.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.pipelines.evaluation.language.evaluation import TextEvaluation

SEED = 12345  # for resampling, as in sacreBLEU, so that the result is always the same


@dataclass(frozen=True)
class TextSignificance:
    """The difference of two models on one text."""

    metric: str
    baseline: float
    candidate: float
    difference: float  # candidate - baseline: below 0 the candidate is better
    mean_difference: float  # over the resampled sets
    p_value: float  # probability of such a difference by chance, two-sided; 1.0 if there is none
    records: int
    samples: int

    def __str__(self) -> str:
        return (
            f"{self.candidate:.4f} {self.metric} against {self.baseline:.4f}: {self.difference:+.4f} "
            f"(mean of {self.samples:,} resampled sets of {self.records:,} records {self.mean_difference:+.4f}, "
            f"p = {self.p_value:.4f})"
        )


def compare(baseline: TextEvaluation, candidate: TextEvaluation, samples: int = 1000) -> TextSignificance:
    """Runs paired bootstrap resampling (Koehn 2004): `samples` sets of records, drawn with replacement, for both
    models.

    The p-value counts how often the resampled difference, centred on its mean, is as large as the observed one; one is
    added to both counts, as in sacreBLEU, so it is never 0.

    Raises:
        UserError: models of different kinds or languages, of differently normalised texts (case, punctuation), or
            masked models that predict different tokens.
    """
    if (baseline.kind, baseline.language) != (candidate.kind, candidate.language):
        raise UserError(
            f"a {candidate.kind} model of {candidate.language} and a {baseline.kind} model of {baseline.language} "
            f"cannot be compared"
        )
    if candidate.kind == "masked":
        if baseline.tokenizer != candidate.tokenizer:
            raise UserError("masked models are compared by what they guess; these have other tokenizers or masks")
        metric, scale, sizes = "nats a guessed token", 1.0, candidate.items  # names are hashed: see tracking/gate.py
    else:
        if baseline.described != candidate.described:
            raise UserError(
                f"one model describes the text {candidate.described}, the other {baseline.described}: their bits "
                f"per character cannot be compared"
            )
        metric, scale, sizes = "bits a character", math.log(2), candidate.characters
    if not np.array_equal(baseline.characters, candidate.characters):
        raise UserError("the two models were evaluated on other texts")
    return paired(baseline.total / scale, candidate.total / scale, sizes, metric, samples)


def paired(
    baseline: NDArray[np.float64], candidate: NDArray[np.float64], sizes: NDArray[np.int64], metric: str, samples: int
) -> TextSignificance:
    """Resamples sums by record (n,) over sizes by record (n,)."""
    rng = np.random.default_rng(SEED)
    count, difference = len(sizes), float((candidate - baseline).sum() / sizes.sum())
    gain = candidate - baseline
    drawn = np.empty(samples)
    for number in range(samples):
        rows = rng.integers(0, count, count)
        drawn[number] = gain[rows].sum() / max(1, sizes[rows].sum())
    mean = float(drawn.mean())
    as_large = int(np.count_nonzero(np.abs(drawn - mean) >= abs(difference)))
    return TextSignificance(
        metric=metric,
        baseline=float(baseline.sum() / sizes.sum()),
        candidate=float(candidate.sum() / sizes.sum()),
        difference=difference,
        mean_difference=mean,
        p_value=(as_large + 1) / (samples + 1) if difference else 1.0,
        records=count,
        samples=samples,
    )
