"""Which tokens a masked network is to guess, and what it sees in their place (Devlin et al. 2019, section 3.1).

A share of the tokens is chosen at random, at least one a record; of those, 80 % are replaced by the mask, 10 % by a
token drawn from the vocabulary, 10 % stay as they are. With whole words the choice falls on words, and all tokens of a
chosen one are to be guessed; what replaces each is drawn for it alone. Special ids are never chosen nor drawn.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError
from model.text.tokenizer import MASK, PAD, SPECIAL, Tokenizer

WORD_START = "▁"  # U+2581: SentencePiece's pieces that begin a word begin with it
NEVER = np.uint64(2**64 - 1)
OF_TEN = 10  # of ten chosen tokens: eight masks, one random token, one as it was
MASKED, RANDOM = 8, 9


@dataclass(frozen=True)
class Masking:
    """The rules, for one vocabulary.

    Raises:
        UserError: a share that is none, or a vocabulary of special ids alone.
    """

    vocabulary: int  # V
    share: float  # of the tokens (or words) that are to be guessed
    begins: NDArray[np.bool_] | None = None  # (V,) ids that begin a word; None: every token by itself
    ends: NDArray[np.bool_] | None = None  # (V,) ids after which a word begins

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise UserError(f"loader.mlm_probability={self.share}: must be above 0 and below 1")
        if self.vocabulary <= len(SPECIAL):
            raise UserError(f"tokenizer: a vocabulary of {self.vocabulary} has nothing to mask but special ids")

    def mask(
        self, ids: NDArray[np.int64], starts: NDArray[np.int64], bits: np.random.Philox
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(inputs, targets), both (tokens,), of records that stand one after the other and begin at `starts`.

        Targets are PAD but at what is to be guessed. `bits` are all that chance has a part in.
        """
        draws = bits.random_raw(2 * len(ids)).reshape(2, -1)  # which are chosen; what replaces them
        units = np.cumsum(self._begins(ids, starts)) - 1  # the word that each token is in
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
        """(tokens,) where a unit of the choice begins."""
        if self.begins is None or self.ends is None:
            return np.ones(len(ids), dtype=np.bool_)
        begins = self.begins[ids]
        begins[1:] |= self.ends[ids[:-1]]
        begins[starts] = True
        return begins


def masking(tokenizer: Tokenizer, share: float, whole_words: bool = False) -> Masking:
    """The rules for a tokenizer's vocabulary."""
    if not whole_words or tokenizer.type == "words":
        return Masking(tokenizer.vocabulary, share)
    pieces = tokenizer.pieces(range(tokenizer.vocabulary))
    special = np.arange(len(pieces)) < len(SPECIAL)
    if tokenizer.type == "characters":
        spaces = np.array([piece.isspace() for piece in pieces]) | special
        return Masking(tokenizer.vocabulary, share, spaces, spaces)
    begins = np.array([piece.startswith(WORD_START) for piece in pieces]) | special
    return Masking(tokenizer.vocabulary, share, begins, special)
