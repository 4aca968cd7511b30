"""The ids of many texts by compiled code: their words looked up in an index, Python only for new words."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import sentencepiece
from numpy.typing import NDArray

from dragoman.model.text import word_table
from dragoman.model.text.tokenizer import Ids
from dragoman.model.text.word_index import Numbers, WordIndex

LETTERS = 1 << 24  # bytes of words kept


class CompiledWordTable:
    """Word -> ids, filled as words come; all words are forgotten when there are too many."""

    ids: Numbers  # of all words
    bounds: Numbers  # where those of each word begin, and the last one's end

    def __init__(self, processor: "sentencepiece.SentencePieceProcessor", mark: Callable[[str], str]) -> None:
        """`mark` returns a word as the library reads it."""
        self.processor, self.mark = processor, mark
        self.index = WordIndex()
        self._forget()

    def encode(self, texts: Sequence[str], dtype: np.dtype[Any]) -> list[Ids]:
        """The ids of texts that hold neither U+2581 nor a line feed."""
        try:
            words, ends = self.index.find(texts)
            self._learn()
        except BaseException:  # no word stays that has no ids
            self._forget()
            raise
        ids: NDArray[Any] = np.empty(int(np.diff(self.bounds)[words].sum()), dtype)
        rows = np.empty(len(texts) + 1, np.int64)
        gather_ids(words, ends, self.bounds, self.ids, ids, rows)
        if self.index.entries > word_table.CACHED_WORDS or self.index.used > LETTERS:
            self._forget()
        return [ids[begin:end] for begin, end in pairwise(rows.tolist())]

    def _learn(self) -> None:
        """The ids of new words, in one call of the library."""
        known = len(self.bounds) - 1
        if known == self.index.entries:
            return
        words = list(map(self.mark, self.index.spelled(known)))
        found = self.processor.encode(words, out_type=int, num_threads=1)
        sizes = np.fromiter(map(len, found), np.int64, len(found))
        fresh = np.fromiter((one for row in found for one in row), np.int64, int(sizes.sum()))
        self.ids = np.concatenate([self.ids, fresh])
        self.bounds = np.concatenate([self.bounds, self.bounds[-1] + np.cumsum(sizes)])

    def _forget(self) -> None:
        self.index.forget()
        self.ids, self.bounds = np.empty(0, np.int64), np.zeros(1, np.int64)


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def gather_ids(words: Numbers, ends: Numbers, bounds: Numbers, ids: Numbers, out: NDArray[Any], rows: Numbers) -> None:
    """The ids of all words in their order, and in `rows` where those of each text begin and the last ends."""
    word, place = 0, 0
    rows[0] = 0
    for row in range(ends.size):
        while word < ends[row]:
            for at in range(bounds[words[word]], bounds[words[word] + 1]):
                out[place] = ids[at]
                place += 1
            word += 1
        rows[row + 1] = place
