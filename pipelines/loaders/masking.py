"""Masking: the tokens that a masked network predicts, and their replacements (Devlin et al. 2019, section 3.1).

A share of the tokens is chosen at random, at least one per record. Of those, 80 % become the mask, 10 % a token drawn
from the vocabulary, and 10 % stay. With whole words, words are chosen and all their tokens are predicted; each token's
replacement is drawn separately. Special ids are never chosen or drawn.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import MASK, PAD, SPECIAL, Tokenizer

WORD_START = "▁"  # U+2581: SentencePiece's pieces at the start of a word begin with it
NEVER = np.uint64(2**64 - 1)
OF_TEN = 10  # of ten chosen tokens: eight masks, one random token, one unchanged
MASKED, RANDOM = 8, 9


@dataclass(frozen=True)
class Masking:
    """The masking rules for one vocabulary.

    Raises:
        UserError: a share out of range, or a vocabulary of only special ids.
    """

    vocabulary: int  # V
    share: float  # of the tokens (or words) to predict
    begins: NDArray[np.bool_] | None = None  # (V,) ids that begin a word; None: every token is its own unit
    ends: NDArray[np.bool_] | None = None  # (V,) ids that end a word

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise UserError(f"loader.mlm_probability={self.share}: must be above 0 and below 1")
        if self.vocabulary <= len(SPECIAL):
            raise UserError(f"tokenizer: a vocabulary of {self.vocabulary} has nothing to mask but special ids")

    def mask(
        self, ids: NDArray[np.int64], starts: NDArray[np.int64], bits: np.random.Philox
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns (inputs, targets), both (tokens,), for concatenated records that begin at `starts`.

        Targets are PAD except at tokens to predict. `bits` is the only source of randomness.
        """
        draws = bits.random_raw(2 * len(ids)).reshape(2, -1)  # for the choice, and for the replacement
        units = np.cumsum(self._begins(ids, starts)) - 1  # the word of each token
        chosen_by = np.where(ids >= len(SPECIAL), draws[0][units], NEVER)
        least = np.minimum.reduceat(chosen_by, starts)  # (records,)
        least_here = np.repeat(least, np.diff(np.append(starts, len(ids))))
        threshold = np.uint64(self.share * 2.0**64)
        chosen = ((chosen_by < threshold) | (chosen_by == least_here)) & (chosen_by != NEVER)
        what = (draws[1] >> np.uint64(32)) % np.uint64(OF_TEN)
        drawn = len(SPECIAL) + (draws[1] & np.uint64(2**32 - 1)) % np.uint64(self.vocabulary - len(SPECIAL))
        inputs = ids.copy()
        inputs[chosen & (what < MASKED)] = MASK
        random = chosen & (what >= MASKED) & (what < RANDOM)
        inputs[random] = drawn[random]
        return inputs, np.where(chosen, ids, PAD)

    def _begins(self, ids: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns (tokens,): True where a unit of the choice begins."""
        if self.begins is None or self.ends is None:
            return np.ones(len(ids), dtype=np.bool_)
        begins = self.begins[ids]
        begins[1:] |= self.ends[ids[:-1]]
        begins[starts] = True
        return begins


def masking(tokenizer: Tokenizer, share: float, whole_words: bool = False) -> Masking:
    """Returns the masking rules for a tokenizer's vocabulary."""
    if not whole_words or tokenizer.type == "words":
        return Masking(tokenizer.vocabulary, share)
    pieces = tokenizer.pieces(range(tokenizer.vocabulary))
    special = np.arange(len(pieces)) < len(SPECIAL)
    if tokenizer.type == "characters":
        spaces = np.array([piece.isspace() for piece in pieces]) | special
        return Masking(tokenizer.vocabulary, share, spaces, spaces)
    begins = np.array([piece.startswith(WORD_START) for piece in pieces]) | special
    return Masking(tokenizer.vocabulary, share, begins, special)
