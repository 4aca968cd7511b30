"""Compares two language models on a text, by paired bootstrap resampling over its records.

The statistic of plain language models is bits per character of the whole text, with unknown words spelled out, which
works across tokenizers. For masked models it is nats per predicted token; both must predict the same tokens and have
the same unknown ones. Lower is better.
"""

import math

import numpy as np

from dragoman.model.errors import UserError
from dragoman.pipelines.evaluation.language.evaluation import TextEvaluation
from dragoman.pipelines.evaluation.significance import Significance, paired


def compare(baseline: TextEvaluation, candidate: TextEvaluation, samples: int = 1000) -> Significance:
    """Runs paired bootstrap resampling (Koehn 2004): `samples` sets of records, drawn with replacement, for both
    models.

    The p-value counts how often the resampled difference, centred on its mean, is as large as the observed one; one is
    added to both counts, as in sacreBLEU, so it is never 0.

    Raises UserError: models of different kinds or languages, of differently normalised texts (case, punctuation), or
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
