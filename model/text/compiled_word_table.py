"""The table of words as arrays, searched by compiled code: bytes of texts in, ids out, Python only for new words.

An entry is a word: its hash, where its bytes stand in `letters` and where its ids stand in `ids`. `slots` is a hash
table with linear probing (Knuth, volume 3, section 6.4, algorithm L): entry + 1 in a slot's lower half, and the hash's
upper half in the upper one, which tells most other words apart without a look elsewhere; 0 where a slot is free.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.text import word_table
from model.text.tokenizer import Ids, without_surrogates

Numbers = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
BLANK, FEED = 0x20, 0x0A
HALF, LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
LETTERS = 1 << 24  # bytes of words kept


class CompiledWordTable:
    """Word -> ids, filled as words come; all words are forgotten when there are too many."""

    entries: int
    used: int  # bytes of `letters`
    slots: Hashes
    hashes: Hashes
    letters: Bytes
    ids: Numbers
    places: Numbers  # where an entry's bytes begin, and the last one's end
    bounds: Numbers  # the same of ids

    def __init__(self, processor: "sentencepiece.SentencePieceProcessor") -> None:
        self.processor = processor
        self._forget()

    def encode(self, texts: Sequence[str], dtype: np.dtype[Any]) -> list[Ids]:
        """The ids of texts that hold neither U+2581 nor a line feed."""
        if not texts:
            return []
        text = "\n".join(texts)
        try:
            data = np.frombuffer(text.encode(), np.uint8)
        except UnicodeEncodeError:  # a lone surrogate
            data = np.frombuffer(without_surrogates(text).encode(), np.uint8)
        most = text.count(" ") + len(texts)
        self._make_room(most, len(data))
        words, ends = np.empty(most, np.int64), np.empty(len(texts), np.int64)
        known = self.entries
        count, self.entries, self.used = find_words(
            data, self.slots, self.hashes, self.places, self.letters, known, self.used, words, ends
        )
        words = words[:count]
        try:
            self._learn(known)
        except BaseException:  # no entry stays that has no ids
            self._forget()
            raise
        sizes = np.diff(self.bounds[: self.entries + 1])
        ids: NDArray[Any] = np.empty(int(sizes[words].sum()), dtype)
        rows = np.empty(len(texts) + 1, np.int64)
        gather_ids(words, ends, self.bounds, self.ids, ids, rows)
        if self.entries > word_table.CACHED_WORDS or self.used > LETTERS:
            self._forget()
        bounds = rows.tolist()
        return [ids[begin:end] for begin, end in pairwise(bounds)]

    def _learn(self, known: int) -> None:
        """The ids of the entries from `known` on, in one call of the library."""
        if known == self.entries:
            return
        letters = self.letters[: self.used].tobytes()
        bounds = self.places[known : self.entries + 1].tolist()
        new = [letters[begin:end].decode() for begin, end in pairwise(bounds)]
        found = self.processor.encode(new, out_type=int, num_threads=1)
        sizes = np.fromiter(map(len, found), np.int64, len(found))
        self.bounds[known + 1 : self.entries + 1] = self.bounds[known] + np.cumsum(sizes)
        fresh = np.fromiter((one for row in found for one in row), np.int64, int(sizes.sum()))
        self.ids = np.concatenate([self.ids, fresh])

    def _forget(self) -> None:
        self.entries, self.used = 0, 0
        self.slots = np.zeros(1 << 16, np.uint64)
        self.hashes = np.empty(1 << 15, np.uint64)
        self.letters = np.empty(1 << 19, np.uint8)
        self.ids = np.empty(0, np.int64)
        self.places = np.zeros(len(self.hashes) + 1, np.int64)
        self.bounds = np.zeros(len(self.hashes) + 1, np.int64)

    def _make_room(self, words: int, size: int) -> None:
        """For so many more words of so many bytes in all, were all of them new."""
        if self.entries + words > len(self.hashes):
            wanted = 2 * (self.entries + words)
            self.hashes = np.resize(self.hashes, wanted)
            self.places, self.bounds = np.resize(self.places, wanted + 1), np.resize(self.bounds, wanted + 1)
        slots = 1 << (2 * (self.entries + words) - 1).bit_length()  # half of them are free; more would be far apart
        if slots > len(self.slots):
            self.slots = np.zeros(slots, np.uint64)
            fill_slots(self.slots, self.hashes[: self.entries])
        if self.used + size > len(self.letters):
            self.letters = np.resize(self.letters, 2 * (self.used + size))


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def find_words(
    data: Bytes,
    slots: Hashes,
    hashes: Hashes,
    places: Numbers,
    letters: Bytes,
    entries: int,
    used: int,
    words: Numbers,
    ends: Numbers,
) -> tuple[int, int, int]:
    """Each word's entry into `words`, new ones made; and into `ends` how many words the texts up to each have.

    Gives the number of words, and `entries` and `used` as they are now. There must be room for as many words.
    """
    mask = np.uint64(slots.size - 1)
    count, row, at, size = 0, 0, 0, data.size
    while True:
        begin = at
        key = np.uint64(14695981039346656037)  # FNV-1a
        while at < size and data[at] != BLANK and data[at] != FEED:
            key = (key ^ np.uint64(data[at])) * np.uint64(1099511628211)
            at += 1
        length = at - begin
        if length:
            slot, tag = (key ^ (key >> HALF)) & mask, key & ~LOWER
            while True:
                found = slots[slot]
                if found == 0:
                    entry = entries
                    slots[slot] = tag | np.uint64(entry + 1)
                    hashes[entry] = key
                    for i in range(length):
                        letters[used + i] = data[begin + i]
                    used += length
                    entries += 1
                    places[entries] = used
                    break
                if found & ~LOWER == tag:
                    entry = int(found & LOWER) - 1
                    first = places[entry]
                    same = places[entry + 1] - first == length
                    for i in range(length if same else 0):
                        if letters[first + i] != data[begin + i]:
                            same = False
                            break
                    if same:
                        break
                slot = (slot + np.uint64(1)) & mask
            words[count] = entry
            count += 1
        if at == size or data[at] == FEED:
            ends[row] = count
            row += 1
        if at == size:
            return count, entries, used
        at += 1


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def fill_slots(slots: Hashes, hashes: Hashes) -> None:
    """A hash table of all entries, into empty slots."""
    mask = np.uint64(slots.size - 1)
    for entry in range(hashes.size):
        key = hashes[entry]
        slot = (key ^ (key >> HALF)) & mask
        while slots[slot]:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (key & ~LOWER) | np.uint64(entry + 1)


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
