"""Held-out texts tokenised by a bundle's own tokenizer, in memory, so that bundles with any tokenizer compare."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import EOS, UNK, Tokenizer
from dragoman.pipelines.evaluation.language.spelling import spelling_nats


class Lines:
    """Records, one line each, as one row of tokens; every record ends with EOS for the line's end."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer) -> None:
        if not texts:
            raise UserError("evaluate.split: no texts to evaluate on")
        self.texts = list(texts)
        self.tokenizer = tokenizer
        self._encoded = encoded = tokenizer.encode(self.texts)
        self.lengths = np.array([len(ids) + 1 for ids in encoded], dtype=np.int64)  # (records,)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.tokens = int(self.lengths.sum())  # N
        self.row = np.full(self.tokens, EOS, dtype=np.int64)
        inside = np.ones(self.tokens, dtype=np.bool_)
        inside[self.starts + self.lengths - 1] = False
        self.row[inside] = np.concatenate(encoded)
        self.unknown = int(np.count_nonzero(self.row == UNK))
        self.characters = np.array([len(text) + 1 for text in self.texts], dtype=np.int64)  # (records,) with the end
        self.bytes = np.array([len(text.encode()) + 1 for text in self.texts], dtype=np.int64)
        self.words = np.array([len(text.split()) + 1 for text in self.texts], dtype=np.int64)

    @cached_property
    def spelling(self) -> NDArray[np.float64]:
        """Returns (records,) nats that describe what the tokens omit: unknown words, odd spaces."""
        return spelling_nats(self.tokenizer, self.texts, self._encoded)

    def rows(self, starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Returns (B, count): the tokens from each of the positions (B,) on, wrapping around at both ends."""
        return np.take(self.row, starts[:, None] + np.arange(count), mode="wrap")

    def by_record(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """values (N,) of tokens -> their sums (records,)."""
        return np.add.reduceat(values, self.starts)
