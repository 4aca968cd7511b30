"""Resamples segmentations of encoded text in training: BPE-dropout and unigram sampling at the loader's speed.

A word gets a few dozen segmentations, each made when first drawn; from then on one of them is picked. This is the draw
of Provilkov et al. 2020 (BPE-dropout) and Kudo 2018 (unigram), approximated by a finite sample per word, 20 times as
fast.
"""

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer import EOS, UNK
from dragoman.model.text.word_table import SPACE

WAYS, KNOWN_WORDS = 32, 200_000  # segmentations per word, and cached words
Row = NDArray[Any]


class SubwordSampler:
    """Draws segmentations of rows that `tokenizer` encoded; depends only on `seed` and the caller's generator."""

    def __init__(self, tokenizer: SubwordTokenizer, strength: float, seed: int) -> None:
        """`strength`: for BPE the probability of dropping a merge; for unigram the exponent of the probabilities."""
        self.tokenizer, self.strength, self.seed = tokenizer, strength, seed
        pieces = tokenizer.pieces(range(tokenizer.vocabulary))
        self._written = pieces
        self._begins = np.array([piece.startswith(SPACE) for piece in pieces])
        self._begins[EOS] = True
        fixed = [i for i in range(tokenizer.vocabulary) if i <= EOS or tokenizer.processor.is_byte(i)]
        fixed += [i for i, piece in enumerate(pieces) if piece.startswith(f"{SPACE}<") and piece[1:] in tokenizer.tags]
        self._fixed = frozenset([*fixed, UNK])  # their text is lost, or they have none; tags have one form
        self._ways: dict[tuple[int, ...], list[tuple[int, ...] | None]] = {}

    def resample(self, rows: Sequence[Row], rng: np.random.Philox) -> list[Row]:
        """Resamples every word of each row (with EOS); words with unknown characters or bytes stay."""
        joined = np.concatenate(rows)
        begins = self._begins[joined]
        starts = np.cumsum([0, *map(len, rows)])
        begins[starts[:-1]] = True
        places = np.append(np.flatnonzero(begins), len(joined))
        draws = (rng.random_raw(len(places) - 1) % np.uint64(WAYS)).tolist()
        ids, ends = joined.tolist(), places.tolist()
        sampled: list[int] = []
        for (begin, end), draw in zip(pairwise(ends), draws, strict=True):
            sampled.extend(self._draw(tuple(ids[begin:end]), draw))
        drawn = np.array(sampled, dtype=joined.dtype)
        return np.split(drawn, np.flatnonzero(drawn == EOS)[:-1] + 1)

    def _draw(self, word: tuple[int, ...], way: int) -> tuple[int, ...]:
        ways = self._ways.get(word)
        if ways is None:
            still = not self._fixed.isdisjoint(word)
            ways = self._ways[word] = [word if still else None] * WAYS
        if len(self._ways) > KNOWN_WORDS:
            self._ways.clear()  # a repeated draw gives the same result
        drawn = ways[way]
        if drawn is None:
            drawn = ways[way] = self._segment(word, way)
        return drawn

    def _segment(self, word: tuple[int, ...], way: int) -> tuple[int, ...]:
        text = "".join(self._written[i] for i in word)
        rng = np.random.default_rng([self.seed, zlib.crc32(text.encode()), way])
        pieces = self.tokenizer.segment(text, rng, self.strength)
        ids = tuple(self.tokenizer.processor.piece_to_id(piece) for piece in pieces)
        return word if UNK in ids else ids
