"""Words that were met and their ids: what makes encoding by subwords fast, for pieces never cross a space.

Two tables for one purpose. `WordTable` is a dictionary, there at once. `model/text/compiled_word_table.py` goes through
the bytes of a text by compiled code, several times as fast, and wants numba, which takes a second to load.
"""

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any, Protocol

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from dragoman.model.text.tokenizer import EOS, Ids, without_surrogates

SPACE = "▁"  # U+2581 stands for a space inside of pieces
CACHED_WORDS, CACHED_LETTERS = 200_000, 40  # words kept, and the longest kept one


class Words(Protocol):
    """A table of words."""

    def encode(self, texts: Sequence[str], dtype: np.dtype[Any]) -> list[Ids]:
        """The ids of texts that hold neither U+2581 nor a line feed."""


def plain(processor: "sentencepiece.SentencePieceProcessor", text: str) -> tuple[int, ...]:
    """One text or word by the library alone."""
    try:
        return tuple(processor.encode(text))
    except RuntimeError:  # a lone surrogate: the library takes UTF-8 only
        return tuple(processor.encode(without_surrogates(text)))


class WordTable(dict[str, tuple[int, ...]]):
    """Word -> ids, filled as words come, with a bounded number of entries."""

    def __init__(self, processor: "sentencepiece.SentencePieceProcessor", mark: Callable[[str], str]) -> None:
        """`mark` returns a word as the library reads it."""
        super().__init__()
        self.processor, self.mark = processor, mark
        self.shrink()

    def encode(self, texts: Sequence[str], dtype: np.dtype[Any]) -> list[Ids]:
        """All texts in one go: the sign for a space, which no text here holds, stands between them and gives EOS."""
        words = f" {SPACE} ".join(texts).split(" ")
        self.learn(words)
        ids: NDArray[Any] = np.fromiter(chain.from_iterable(map(self.__getitem__, words)), dtype=dtype)
        self.shrink()
        ends = [*np.flatnonzero(ids == EOS).tolist(), len(ids)]
        return [ids[begin + 1 : end] for begin, end in pairwise([-1, *ends])]

    def learn(self, words: list[str]) -> None:
        """Adds those of `words` that are not known yet, in one call of the library."""
        new = list(set(words).difference(self))
        read = list(map(self.mark, new))
        try:
            self.update(zip(new, map(tuple, self.processor.encode(read, out_type=int, num_threads=1)), strict=True))
        except TypeError:  # a lone surrogate somewhere: the library takes UTF-8 only
            self.update((word, plain(self.processor, text)) for word, text in zip(new, read, strict=True))
        self.long.extend(word for word in new if len(word) > CACHED_LETTERS)

    def shrink(self) -> None:
        """Forget long words at once, and all words when there are too many: the frequent ones are soon back."""
        if not self or len(self) > CACHED_WORDS:
            self.clear()
            self.update({SPACE: (EOS,), "": ()})
            self.long: list[str] = []
        while self.long:
            self.pop(self.long.pop(), None)
