"""Scores of labels: accuracy and F1 by scikit-learn, spans of tags, calibration, errors of numbers.

N labelled texts or words, C labels.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BINS = 15  # of the confidence, as in Guo et al. 2017
PREFIXES = {"B", "I", "E", "S", "L", "U"}  # of tags of spans: BIO, BIOES, BILOU
Span = tuple[int, int, str]  # first word, the word after the last, its kind


def class_scores(gold: Sequence[str], guessed: Sequence[str]) -> dict[str, float]:
    """Returns accuracy and macro-F1, the mean of each label's F1, over the labels that occur on either side."""
    from sklearn.metrics import accuracy_score, f1_score

    return {
        "accuracy": float(accuracy_score(gold, guessed)),
        "macro_f1": float(f1_score(gold, guessed, average="macro", zero_division=0.0)),
    }


def calibration(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> list[tuple[int, float, float]]:
    """Returns (labels, mean confidence, accuracy) of each of BINS equal ranges of confidence; of empty ones zeros."""
    places = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(places, minlength=BINS)
    sums = (np.bincount(places, values, BINS) for values in (confidence, right.astype(np.float64)))
    means = [found / np.maximum(counts, 1) for found in sums]
    return list(zip(counts.tolist(), means[0].tolist(), means[1].tolist(), strict=True))


def calibration_error(bins: Sequence[tuple[int, float, float]]) -> float:
    """Returns the expected calibration error: mean |confidence - accuracy| by labels (Guo et al. 2017, equation 3)."""
    total = sum(count for count, _, _ in bins)
    return sum(count * abs(confidence - right) for count, confidence, right in bins) / max(1, total)


def are_spans(labels: Sequence[str]) -> bool:
    """Returns True if the tags are those of spans: O, and kinds after B-, I- and their kin."""
    rest = [label for label in labels if label != "O"]
    return bool(rest) and all(label[1:2] == "-" and label[0] in PREFIXES for label in rest)


def spans_of(tags: Sequence[str]) -> set[Span]:
    """Returns the spans of a text's tags, as conlleval finds them: a span also begins where its kind changes."""
    found, first = set(), 0
    for place, (before, tag) in enumerate(pairwise(["O", *tags, "O"])):
        inside = before != "O"
        goes_on = tag[0] in "IEL" and before[2:] == tag[2:] and before[0] not in "ESLU"
        if inside and not goes_on:
            found.add((first, place, before[2:]))
        if tag != "O" and not (inside and goes_on):
            first = place
    return found


def span_scores(gold: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns precision, recall and F1 of whole spans over all texts (Tjong Kim Sang and De Meulder 2003)."""
    there, found = ([spans_of(tags) for tags in side] for side in (gold, guessed))
    right = sum(len(ours & theirs) for ours, theirs in zip(found, there, strict=True))
    precision, recall = (right / max(1, sum(map(len, side))) for side in (found, there))
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"span_precision": precision, "span_recall": recall, "span_f1": f1}


def number_scores(gold: NDArray[np.float64], guessed: NDArray[np.float64]) -> dict[str, float]:
    """Returns the mean absolute and root mean squared error, R2 (the share of the variance explained), and Spearman's
    correlation; 0 where a side does not vary."""
    from scipy.stats import spearmanr

    errors = guessed - gold
    spread = float(((gold - gold.mean()) ** 2).sum())
    varies = spread > 0 and float(np.ptp(guessed)) > 0
    return {
        "mae": float(np.abs(errors).mean()),
        "rmse": float(np.sqrt((errors**2).mean())),
        "r2": 1.0 - float((errors**2).sum()) / spread if spread else 0.0,
        "spearman": float(spearmanr(gold, guessed).statistic) if varies else 0.0,
    }
