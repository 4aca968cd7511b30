"""Noise for denoising pre-training: what an encoder-decoder reads, and what it must write.

infilling (Lewis et al. 2020, BART, section 2.2): spans whose lengths are drawn from a Poisson distribution are each
    replaced with one mask; a span of no tokens inserts a mask. The target is the whole text.
spans (Raffel et al. 2020, T5, section 3.1.4 and figure 2): spans are replaced with sentinels, each with its own; the
    target has each sentinel before the tokens of its span, and one more sentinel at its end.

Rows end with EOS, which stays. All noise of a row comes from its own random bits, by numbers that are the same with
every version of NumPy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import EOS, MASK, Tokenizer
from dragoman.pipelines.settings import LoaderConfig

Row: TypeAlias = NDArray[np.int64]  # (T,) ids, the last of them EOS
UNIT = 2.0**-64


@dataclass(frozen=True)
class Noise:
    """The noise of one vocabulary."""

    kind: Literal["infilling", "spans"]
    share: float  # of the tokens, without EOS, that are in spans
    span_length: float  # mean tokens of a span
    sentinels: Sequence[int] = ()  # their ids, first to last

    def __post_init__(self) -> None:
        """Refuses settings that leave no noise."""
        if self.share == 0.0:
            raise UserError("loader.noise_share=0: leaves the text as it is; choose 0.3, or 0.15 for spans")
        if self.kind == "spans" and len(self.sentinels) < 2:
            raise UserError(
                f"loader.denoise=spans: the tokenizer has {len(self.sentinels)} sentinels and spans need two at least. "
                f"Choices: tokenizer.sentinels=32 and sharding again, or loader.denoise=infilling"
            )

    def apply(self, row: Row, bits: np.random.Philox) -> tuple[Row, Row]:
        """Returns (source, target) of a text; neither source nor text is changed in position."""
        return self._corrupt(row, bits) if self.kind == "spans" else (self._infill(row, bits), row)

    def _infill(self, row: Row, bits: np.random.Philox) -> Row:
        """Replaces spans of Poisson lengths with one mask each; neighbouring spans keep a token between them."""
        count = len(row) - 1
        lengths = poisson_lengths(rounded(self.share * count, bits), self.span_length, bits)
        kept = count - sum(lengths)
        positions = np.sort(shuffled(kept + 1, bits)[: len(lengths)])  # the tokens kept before each span
        lengths = lengths[: len(positions)]
        pieces: list[Sequence[int] | Row] = []
        begin = 0
        for number, (position, length) in enumerate(zip(positions.tolist(), lengths, strict=True)):
            start = position + sum(lengths[:number])
            pieces += [row[begin:start], [MASK]]
            begin = start + length
        return np.concatenate([*pieces, row[begin:]]).astype(np.int64)

    def _corrupt(self, row: Row, bits: np.random.Philox) -> tuple[Row, Row]:
        """Replaces spans with sentinels: random cuts of the noise and of the rest, which take turns."""
        count = len(row) - 1
        if count == 0:
            return row, row
        noise = min(max(rounded(self.share * count, bits), 1), count)
        spans = min(max(round(noise / self.span_length), 1), noise, len(self.sentinels) - 1, count - noise + 1)
        lengths = composition(noise, spans, bits)
        gaps = composition(count - noise + 2, spans + 1, bits)  # the first and the last may be empty
        gaps[0], gaps[-1] = gaps[0] - 1, gaps[-1] - 1
        source: list[Sequence[int] | Row] = []
        target: list[Sequence[int] | Row] = []
        position = 0
        for number, sentinel in enumerate(self.sentinels[:spans]):
            begin = position + gaps[number]
            source += [row[position:begin], [sentinel]]
            position = begin + lengths[number]
            target += [[sentinel], row[begin:position]]
        source.append(row[position:])
        target.append([self.sentinels[spans], EOS])
        return np.concatenate(source).astype(np.int64), np.concatenate(target).astype(np.int64)


def noise_of(config: LoaderConfig, tokenizer: Tokenizer) -> Noise:
    """Returns the noise that the section `loader` asks for."""
    assert config.denoise != "none", "asked for only where there is noise"
    return Noise(config.denoise, config.noise_share, config.span_length, tokenizer.sentinels)


def rounded(value: float, bits: np.random.Philox) -> int:
    """Returns a neighbouring whole number whose mean is `value`."""
    return math.floor(value + uniform(bits))


def poisson_lengths(tokens: int, mean: float, bits: np.random.Philox) -> list[int]:
    """Returns lengths drawn from Poisson(`mean`) that sum to `tokens`: the last is cut to fit."""
    lengths: list[int] = []
    left = tokens
    while left > 0:
        lengths.append(min(poisson(mean, uniform(bits)), left))
        left -= lengths[-1]
    return lengths


def poisson(mean: float, drawn: float) -> int:
    """Returns the smallest k whose cumulative probability is above `drawn`, which is in [0, 1)."""
    k, term = 0, math.exp(-mean)
    total = term
    while drawn >= total and term > 0.0:
        k += 1
        term *= mean / k
        total += term
    return k


def composition(total: int, parts: int, bits: np.random.Philox) -> list[int]:
    """Returns `parts` numbers from 1 on that sum to `total`; every choice is equally likely."""
    cuts = np.sort(shuffled(total - 1, bits)[: parts - 1]) + 1
    bounds: list[int] = [0, *cuts.tolist(), total]
    return [end - begin for begin, end in pairwise(bounds)]


def shuffled(count: int, bits: np.random.Philox) -> NDArray[np.int64]:
    """Returns a random order of 0 ... `count` - 1."""
    return np.argsort(bits.random_raw(count)).astype(np.int64)


def uniform(bits: np.random.Philox) -> float:
    """Returns a number in [0, 1)."""
    return min(bits.random_raw() * UNIT, 1.0 - 2.0**-53)
