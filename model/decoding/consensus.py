"""Consensus: chooses the translation that is most like all the others.

Minimum Bayes risk decoding (Kumar and Byrne 2004, section 2) with BLEU as the gain. Every hypothesis has one equal
vote, and the model's own score is added. Counts target tokens, so no language needs its own rules.

Letters: N hypotheses of one sentence, G distinct n-grams among them.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dragoman.model.decoding.hypothesis import Hypothesis

ORDER = 4


def sort_by_consensus(hypotheses: Sequence[Hypothesis], weight: float) -> list[Hypothesis]:
    """Sorts the hypotheses by score + `weight` x the mean of their BLEU (0 to 1) against all, best first.

    Equal ones keep their order.
    """
    votes = likeness([hypothesis.ids for hypothesis in hypotheses]).mean(1)
    worth = np.array([hypothesis.score for hypothesis in hypotheses]) + weight * votes
    return [hypotheses[row] for row in np.argsort(-worth, kind="stable")]


def likeness(texts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Returns (N, N): BLEU of text i as the hypothesis and text j as its reference, in tokens.

    Sentences have few 4-grams, so every order adds one to its matches and to its n-grams (Lin and Och 2004, section 4,
    for the higher orders; here also for words, since texts may have none in common).
    """
    counts, orders = ngram_counts(texts)  # (N, G), (G,)
    lengths = np.array([len(text) for text in texts], np.float64)
    precision = np.zeros((len(texts), len(texts)))
    for order in range(1, ORDER + 1):
        held = counts[:, orders == order]
        matches = np.minimum(held[:, None], held[None]).sum(-1)  # (N, N)
        precision += np.log((matches + 1) / (np.maximum(lengths - order + 1, 0)[:, None] + 1)) / ORDER
    short = np.minimum(0.0, 1.0 - lengths[None] / np.maximum(lengths, 1.0)[:, None])  # log of the brevity penalty
    return np.exp(precision + short)


def ngram_counts(texts: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns (N, G): how often each 1- to 4-gram occurs in each text, and (G,): its length in tokens."""
    counters = [
        Counter(tuple(text[i : i + order]) for order in range(1, ORDER + 1) for i in range(len(text) - order + 1))
        for text in texts
    ]
    columns = {gram: column for column, gram in enumerate(dict.fromkeys(gram for each in counters for gram in each))}
    counts = np.zeros((len(texts), len(columns)), np.int32)
    for row, each in zip(counts, counters, strict=True):
        for gram, count in each.items():
            row[columns[gram]] = count
    return counts, np.array([len(gram) for gram in columns], np.int64)
