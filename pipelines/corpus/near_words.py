"""Finds sentences one word from a held-out one: a word added, removed or replaced, or two words swapped or joined.

Candidates come from an index of the held-out sentences with each word removed and each two adjacent words joined: two
sentences one word apart have such an entry in common. An exact comparison follows, so nothing is dropped by chance. A
misspelt word is another word. In scripts without spaces a word is a character; letter case and punctuation are ignored.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

FEWEST = 3  # words of the shorter sentence: "go home" is one word from every sentence of two
# A letter of a script without spaces is a word (Thai, Lao, Burmese, Khmer, kana, ideographs), else a run of letters.
UNSPACED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
WORD = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[^\W_])+")
Words = Sequence[str]


def words_of(text: str) -> list[str]:
    """Returns the words of a text, without letter case and punctuation."""
    folded = "".join(letter for letter in text.casefold() if letter not in "'’")
    return [match.group() for match in WORD.finditer(folded)]


def variants(words: Words) -> Iterator[int]:
    """Yields hashes; sentences that are at most one word apart have at least one in common."""
    yield hash(" ".join(words))
    for place in range(len(words)):
        yield hash(" ".join([*words[:place], *words[place + 1 :]]))
        if place:
            joined = words[place - 1] + words[place]
            yield hash(" ".join([*words[: place - 1], joined, *words[place + 1 :]]))


def within_one_word(one: Words, other: Words) -> bool:
    """Returns True if two sentences are equal or one word apart."""
    if abs(len(one) - len(other)) > 1:
        return False
    first = 0
    while first < min(len(one), len(other)) and one[first] == other[first]:
        first += 1
    end = 0
    while end < min(len(one), len(other)) - first and one[-1 - end] == other[-1 - end]:
        end += 1
    left, right = sorted((list(one[first : len(one) - end]), list(other[first : len(other) - end])), key=len)
    if len(right) < 2:  # equal, a word added, or a word replaced
        return True
    if len(right) > 2 or not left:
        return False
    return left == right[::-1] if len(left) == 2 else left[0] == right[0] + right[1]


class WordIndex:
    """Held-out sentences of one language, with their names."""

    def __init__(self) -> None:
        self._sentences: list[tuple[list[str], int]] = []
        self._places: dict[int, list[int]] = defaultdict(list)

    def add(self, text: str, name: int) -> None:
        """Adds a sentence; one that is too short matches nothing."""
        words = words_of(text)
        if len(words) < FEWEST:
            return
        self._sentences.append((words, name))
        for key in set(variants(words)):
            self._places[key].append(len(self._sentences) - 1)

    def near(self, text: str) -> set[int]:
        """Returns the names of the sentences that are at most one word from `text`."""
        words = words_of(text)
        if len(words) < FEWEST or not self._sentences:
            return set()
        places: set[int] = set()
        for key in variants(words):
            places.update(self._places.get(key, ()))
        return {name for held, name in map(self._sentences.__getitem__, places) if within_one_word(words, held)}


class HeldOutWords:
    """The held-out pairs of a corpus, with one index per side."""

    def __init__(self, pairs: Iterable[tuple[str, str, int]]) -> None:
        """`pairs`: (source, target, name) of each."""
        self._sides = (WordIndex(), WordIndex())
        for *texts, name in pairs:
            for index, text in zip(self._sides, texts, strict=True):
                index.add(str(text), int(name))

    def near(self, source: str, target: str) -> set[int]:
        """Returns the names of the pairs that have a side at most one word from the given pair's."""
        return self._sides[0].near(source) | self._sides[1].near(target)
