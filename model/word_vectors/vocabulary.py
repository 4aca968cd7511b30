"""The vocabulary of word vectors: maps a tokenizer's ids to rows of the tables, most frequent first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL

LEFT_OUT = -1  # the row of a token that has no vector


@dataclass(frozen=True)
class Vocabulary:
    """V words with their counts; the tables of every method have V rows in this order."""

    words: list[str]  # (V,) most frequent first, ties in the order of the token ids
    counts: NDArray[np.int64]  # (V,) in the training split
    rows: NDArray[np.int32]  # (token ids,) row of each token id; -1: special, unseen or rarer than min_count

    @classmethod
    def of(cls, pieces: Sequence[str], counts: NDArray[Any], min_count: int = 1) -> "Vocabulary":
        """Returns the vocabulary of a tokenizer's `pieces`, given how often each of its ids occurs in the text.

        Special ids and ids that do not occur have no vector. They are dropped from the text, so that the words around
        them move together, as in word2vec.
        """
        if len(pieces) != len(counts):
            raise ValueError(f"{len(pieces)} pieces but {len(counts)} counts")
        seen = np.asarray(counts, dtype=np.int64)
        kept = seen >= max(1, min_count)
        kept[: len(SPECIAL)] = False
        ids = np.flatnonzero(kept)
        ids = ids[np.argsort(-seen[ids], kind="stable")]  # (V,)
        if len(ids) < 2:
            raise UserError(cls._explain_too_few(pieces, seen, ids, min_count))
        rows = np.full(len(seen), LEFT_OUT, dtype=np.int32)
        rows[ids] = np.arange(len(ids), dtype=np.int32)
        return cls([pieces[int(i)] for i in ids], seen[ids], rows)

    @staticmethod
    def _explain_too_few(pieces: Sequence[str], seen: NDArray[np.int64], ids: NDArray[np.int64], min_count: int) -> str:
        words = seen[len(SPECIAL) :]
        if not words.any():
            return "the training text holds no words: word vectors need a text of at least two different words"
        most = int(words.max())
        left = f"only {pieces[int(ids[0])]!r}" if len(ids) else "no word"
        return (
            f"model.min_count={min_count}: {left} of the training text occurs that often (the most frequent word "
            f"occurs {most:,} times, {int((words > 0).sum()):,} different words occur at all); word vectors need two"
        )

    def __len__(self) -> int:
        return len(self.words)

    @property
    def tokens(self) -> int:
        """Returns the number of words of the training text that have a vector; the learning rate decays over them."""
        return int(self.counts.sum())
