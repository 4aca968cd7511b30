"""Detects subwords that repeat inside a word ("Bil il il il ist") and keeps them out of a search.

A network that does not know how a rare word continues may repeat the same one to four subwords, none of which begins a
word. Two in a row occur in real words; docs/decoding-and-evaluation.md gives how rarely three do. Repeated words ("sehr
sehr sehr"), numbers and rows of symbols do not count.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.model.text.tokenizer import SPECIAL_PIECES, SUBWORDS, Tokenizer
from dragoman.model.text.word_table import SPACE

if TYPE_CHECKING:
    from torch import Tensor

LONGEST = 4  # subwords in the repeated run
LETTERS = 2  # letters that it has at least: three equal letters meet in compounds ("Schifffahrt")


class WordLoops:
    """The rule for one target vocabulary: a run of subwords inside a word occurs at most `most` times in a row."""

    def __init__(self, tokenizer: Tokenizer, most: int) -> None:
        self.most = most
        pieces = tokenizer.pieces(range(tokenizer.vocabulary)) if tokenizer.type in SUBWORDS else []
        # Letters of each piece that continues a word; 0: it begins one, or is no letters
        self.letters = [len(piece) if piece.isalpha() and SPACE not in piece else 0 for piece in pieces]
        self.letters[: len(SPECIAL_PIECES)] = [0] * min(len(SPECIAL_PIECES), len(pieces))

    def found(self, ids: Sequence[int]) -> bool:
        """Returns True if the translation has such a loop."""
        return any(self.closes(ids[:end], ids[end]) for end in range(len(ids)))

    def forbidden(self, ids: Sequence[int]) -> list[int]:
        """Returns the tokens that would close a loop after `ids`."""
        candidates = {ids[-length] for length in range(1, min(LONGEST, len(ids)) + 1)}
        return sorted(token for token in candidates if self.closes(ids, token))

    def closes(self, ids: Sequence[int], token: int) -> bool:
        """Returns True if `token` after `ids` completes repetition `most` + 1 of a run of subwords."""
        if not self._letters(token):
            return False
        for length in range(1, LONGEST + 1):
            count = length * (self.most + 1)
            if count > len(ids) + 1:
                return False
            last = [*ids[len(ids) + 1 - count :], token]
            unit = last[:length]
            sizes = [self._letters(word) for word in unit]
            if last == unit * (self.most + 1) and all(sizes) and sum(sizes) >= LETTERS:
                return True
        return False

    def _letters(self, token: int) -> int:
        return self.letters[token] if token < len(self.letters) else 0

    def mask(self, histories: Sequence[Sequence[int]], logits: "Tensor") -> None:
        """Masks the tokens that would close a loop after each history; changes `logits` (rows, V) in place."""
        for row, ids in enumerate(histories):
            never = self.forbidden(ids)
            if never:
                logits[row, never] = -float("inf")
