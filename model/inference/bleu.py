"""BLEU from sufficient statistics: a corpus's score depends only on sums over its sentences, so other hypotheses
only mean other rows to add. sacreBLEU's tokenisers, brevity penalty and smoothing (exponential).

K = 10 columns: matches of 1- to 4-grams, 1- to 4-grams of the hypothesis, words of the hypothesis and of the reference.
"""

import importlib.util
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError, unknown
from dragoman.model.languages import base_language

MECAB = "ja-mecab"
TOKENISERS = ("auto", "13a", "intl", "zh", MECAB, "char", "none")
# Languages written without spaces; Japanese is split into words where MeCab is installed.
# Burmese's letters are those of Shan and Mon, Tibetan's those of Dzongkha.
BY_LANGUAGE = {"zh": "zh", **dict.fromkeys(("ja", "th", "lo", "km", "my", "shn", "mnw", "bo", "dz"), "char")}
UNSPACED = ("zh", "char", MECAB)  # tokenisers of texts that have no spaces between words
ORDER = 4
WIDTH = 2 * ORDER + 2  # K


def tokeniser(name: str, language: str, key: str = "evaluate.tokenize") -> str:
    """Returns sacreBLEU's tokeniser of that name; `auto` chooses by the target language and what is installed."""
    if name not in TOKENISERS:
        raise unknown(key, name, TOKENISERS)
    if name == "auto":
        base = base_language(language)
        return MECAB if base == "ja" and has_mecab() else BY_LANGUAGE.get(base, "13a")
    if name == MECAB and not has_mecab():
        raise UserError(f"{key}={MECAB}: MeCab is not installed here; pip install 'sacrebleu[ja]', or {key}=char")
    return name


def has_mecab() -> bool:
    """Returns True if the two packages are installed that sacreBLEU's Japanese tokeniser needs."""
    return all(importlib.util.find_spec(package) for package in ("MeCab", "ipadic"))


class SentenceBleu:
    """Counts hypotheses against references under one tokeniser."""

    def __init__(self, tokenize: str = "13a") -> None:
        self.tokenize = tokenize

    @cached_property
    def _metric(self) -> Any:
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize=self.tokenize, force=True)

    @property
    def signature(self) -> str:
        """Returns sacreBLEU's signature, for one reference."""
        self._metric.num_refs = 1
        return str(self._metric.get_signature())

    def statistics(self, hypotheses: Sequence[str], reference: str) -> NDArray[np.int64]:
        """Returns (n, K): one row for each of a sentence's hypotheses; counts the reference's n-grams once."""
        expected, words = self._grams(reference)
        rows = np.zeros((len(hypotheses), WIDTH), np.int64)
        for row, text in zip(rows, hypotheses, strict=True):
            grams, length = self._grams(text)
            for gram, count in grams.items():
                if gram in expected:
                    row[len(gram) - 1] += min(count, expected[gram])
            row[ORDER : 2 * ORDER] = [max(0, length - n) for n in range(ORDER)]
            row[-2:] = length, words
        return rows

    def _grams(self, text: str) -> tuple[Counter[tuple[str, ...]], int]:
        """Returns the 1- to 4-grams of a text, and its number of words."""
        words = self._metric.tokenizer(text.rstrip()).split()
        grams = (tuple(words[i : i + n]) for n in range(1, ORDER + 1) for i in range(len(words) - n + 1))
        return Counter(grams), len(words)


def bleu(statistics: NDArray[Any]) -> NDArray[np.float64]:
    """Returns corpus BLEU, 0 to 100, of summed statistics (..., K) -> (...).

    Follows sacreBLEU's default: an order without a match counts as 1/2, 1/4, 1/8 ... of a match; a corpus without any
    match or without a 4-gram scores 0.
    """
    if statistics.shape[-1] != WIDTH:
        raise UserError(f"BLEU: {statistics.shape[-1]} columns of statistics, not {WIDTH}")
    sums = np.asarray(statistics, np.float64)
    matches, totals, length, reference = sums[..., :ORDER], sums[..., ORDER:-2], sums[..., -2], sums[..., -1]
    missed = matches == 0
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, -1), matches)  # (..., 4)
    some = (matches.sum(-1) > 0) & (totals > 0).all(-1)
    precision = np.log(smoothed / np.maximum(totals, 1)).mean(-1)
    short = np.minimum(0.0, 1.0 - reference / np.maximum(length, 1))  # log of the brevity penalty
    return np.where(some, 100.0 * np.exp(precision + short), 0.0)
