"""Words that were met and their ids: what makes encoding by subwords fast, for pieces never cross a space.

Many texts at once are cut into words by Arrow, which leaves each different word to Python once.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from dragoman.model.text.tokenizer import EOS, Ids, without_surrogates

SPACE = "▁"  # U+2581 stands for a space inside of pieces
CACHED_WORDS, CACHED_LETTERS = 200_000, 40  # words kept, and the longest kept one
MANY = 1000  # texts from which Arrow pays


def split_words(texts: Sequence[str]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the different words between spaces as they first occur, (words,) the place of each among them, and
    (texts + 1,) where the words of each text begin and the last ends."""
    import pyarrow
    import pyarrow.compute

    try:
        rows = pyarrow.array(texts, pyarrow.string())
    except UnicodeEncodeError:  # a lone surrogate somewhere
        rows = pyarrow.array(list(map(without_surrogates, texts)), pyarrow.string())
    words = pyarrow.compute.split_pattern(rows, " ")
    encoded = words.values.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64), words.offsets.to_numpy()


def plain(processor: "sentencepiece.SentencePieceProcessor", text: str) -> tuple[int, ...]:
    """One text or word by the library alone."""
    try:
        return tuple(processor.encode(text))
    except RuntimeError:  # a lone surrogate: the library takes UTF-8 only
        return tuple(processor.encode(without_surrogates(text)))


class WordTable(dict[str, tuple[int, ...]]):
    """Word -> ids, filled as words come, with a bounded number of entries."""

    def __init__(self, processor: "sentencepiece.SentencePieceProcessor") -> None:
        super().__init__()
        self.processor = processor
        self.shrink()

    def encode(self, texts: Sequence[str], dtype: np.dtype[Any]) -> list[Ids]:
        """Returns the ids of texts that hold neither U+2581 nor a line feed."""
        return (self._encode_many if len(texts) >= MANY else self._encode_few)(texts, dtype)

    def _encode_few(self, texts: Sequence[str], dtype: np.dtype[Any]) -> list[Ids]:
        """Encodes all in one go: the sign for a space, which no text here holds, stands between them and gives EOS."""
        words = f" {SPACE} ".join(texts).split(" ")
        self.learn(words)
        ids: NDArray[Any] = np.fromiter(chain.from_iterable(map(self.__getitem__, words)), dtype=dtype)
        self.shrink()
        ends = [*np.flatnonzero(ids == EOS).tolist(), len(ids)]
        return [ids[begin + 1 : end] for begin, end in pairwise([-1, *ends])]

    def _encode_many(self, texts: Sequence[str], dtype: np.dtype[Any]) -> list[Ids]:
        words, places, rows = split_words(texts)
        self.learn(words)
        word_ids = list(map(self.__getitem__, words))
        self.shrink()
        sizes = np.fromiter(map(len, word_ids), np.int64, len(word_ids))  # of each word
        first = np.cumsum(sizes) - sizes  # of its ids in `every`
        every: NDArray[Any] = np.fromiter(chain.from_iterable(word_ids), dtype=dtype)
        ends = np.concatenate([[0], np.cumsum(sizes[places])])  # (words + 1,) where the ids of each begin
        ids = every[np.repeat(first[places] - ends[:-1], sizes[places]) + np.arange(ends[-1])]
        return [ids[begin:end] for begin, end in pairwise(ends[rows].tolist())]

    def learn(self, words: Sequence[str]) -> None:
        """Adds those of `words` that are not known yet, in one call of the library."""
        new = list(set(words).difference(self))
        try:
            self.update(zip(new, map(tuple, self.processor.encode(new, out_type=int, num_threads=1)), strict=True))
        except TypeError:  # a lone surrogate somewhere: the library takes UTF-8 only
            self.update((word, plain(self.processor, word)) for word in new)
        self.long.extend(word for word in new if len(word) > CACHED_LETTERS)

    def shrink(self) -> None:
        """Forget long words at once, and all words when there are too many: the frequent ones are soon back."""
        if not self or len(self) > CACHED_WORDS:
            self.clear()
            self.update({SPACE: (EOS,), "": ()})
            self.long: list[str] = []
        while self.long:
            self.pop(self.long.pop(), None)
