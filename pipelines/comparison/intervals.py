"""A corpus score with its interval from resampled sentences."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Metric = Literal["bleu", "chrf"]


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
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = BLEU(tokenize=tokenize) if metric == "bleu" else CHRF()
    found = scorer.corpus_score(list(hypotheses), [list(references)], n_bootstrap=samples)
    exact = float(found.score)
    if samples < 2 or len(references) < 2:
        return Interval(exact, exact, exact)
    signature = str(scorer.get_signature())
    record = json.loads(found.format(width=6, signature=signature, is_json=True))
    if "confidence_mean" not in record:  # every resampled set scored 0
        return Interval(exact, exact, exact)
    mean, half = float(record["confidence_mean"]), float(record["confidence_var"])
    return Interval(exact, mean - half, mean + half)
