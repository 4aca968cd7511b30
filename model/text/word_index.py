"""Which words texts consist of, by compiled code: bytes in, the numbers of words out, in the order they were first met.

An entry is a word: its hash, and where its bytes stand in `letters`. `slots` is a hash table with linear probing
(Knuth, volume 3, section 6.4, algorithm L): entry + 1 in a slot's lower half, and the hash's upper half in the upper
one, which tells most other words apart without a look elsewhere; 0 where a slot is free.
"""

from collections.abc import Sequence
from itertools import pairwise

import numba
import numpy as np
from numpy.typing import NDArray

from dragoman.model.text.tokenizer import without_surrogates

Numbers = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
BLANK, FEED = 0x20, 0x0A
HALF, LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)


class WordIndex:
    """Word -> number, filled as words come. A word is what stands between spaces."""

    entries: int
    used: int  # bytes of `letters`
    slots: Hashes
    hashes: Hashes
    letters: Bytes
    places: Numbers  # where an entry's bytes begin, and the last one's end

    def __init__(self) -> None:
        self.forget()

    def find(self, texts: Sequence[str]) -> tuple[Numbers, Numbers]:
        """The numbers of all words in their order, and (n,) how many of them the texts up to each have; new words get
        the next numbers. No text holds a line feed."""
        if not texts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        text = "\n".join(texts)
        try:
            data = np.frombuffer(text.encode(), np.uint8)
        except UnicodeEncodeError:  # a lone surrogate
            data = np.frombuffer(without_surrogates(text).encode(), np.uint8)
        most = text.count(" ") + text.count("\n") + 1
        self._make_room(most, len(data))
        words, ends = np.empty(most, np.int64), np.empty(text.count("\n") + 1, np.int64)
        count, self.entries, self.used = find_words(
            data, self.slots, self.hashes, self.places, self.letters, self.entries, self.used, words, ends
        )
        return words[:count], ends

    def spelled(self, first: int = 0) -> list[str]:
        """The words from number `first` on."""
        letters = self.letters[: self.used].tobytes()
        return [letters[begin:end].decode() for begin, end in pairwise(self.places[first : self.entries + 1].tolist())]

    def forget(self) -> None:
        """All words."""
        self.entries, self.used = 0, 0
        self.slots = np.zeros(1 << 16, np.uint64)
        self.hashes = np.empty(1 << 15, np.uint64)
        self.letters = np.empty(1 << 19, np.uint8)
        self.places = np.zeros(len(self.hashes) + 1, np.int64)

    def _make_room(self, words: int, size: int) -> None:
        """For so many more words of so many bytes in all, were all of them new."""
        if self.entries + words > len(self.hashes):
            wanted = 2 * (self.entries + words)
            self.hashes = np.resize(self.hashes, wanted)
            self.places = np.resize(self.places, wanted + 1)
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
