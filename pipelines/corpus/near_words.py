"""Sentences one word from a held-out one: a word added, left out, put in another's place, or two swapped or joined.

Candidates come from an index of the held-out sentences with each word left out and each two neighbours joined: what is
one word apart has one of these in common. An exact comparison follows, so that nothing is dropped by chance. A misspelt
word is another word. Where words are not spaced a word is a character; letter case and punctuation are none.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import regex

FEWEST = 3  # words of the shorter sentence: "go home" is one word from every sentence of two
# A letter of a script without spaces is a word (Thai, Lao, Burmese, Khmer, kana, ideographs), else a run of letters
# with their marks and joiners: words of Hindi may differ in a vowel sign alone.
UNSPACED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
WORD = regex.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[\p{{L}}\p{{M}}\p{{N}}\u200c\u200d])+")
Words = Sequence[str]


def words_of(text: str) -> list[str]:
    """Return the words of a text, letter case and punctuation aside."""
    folded = "".join(letter for letter in text.casefold() if letter not in "'’")
    return [match.group() for match in WORD.finditer(folded)]


def variants(words: Words) -> Iterator[int]:
    """Yield the hashes that two sentences share where they are at most one word apart."""
    yield hash(" ".join(words))
    for place in range(len(words)):
        yield hash(" ".join([*words[:place], *words[place + 1 :]]))
        if place:
            joined = words[place - 1] + words[place]
            yield hash(" ".join([*words[: place - 1], joined, *words[place + 1 :]]))


def within_one_word(one: Words, other: Words) -> bool:
    """Return True if two sentences are equal or one word apart."""
    if abs(len(one) - len(other)) > 1:
        return False
    first = 0
    while first < min(len(one), len(other)) and one[first] == other[first]:
        first += 1
    end = 0
    while end < min(len(one), len(other)) - first and one[-1 - end] == other[-1 - end]:
        end += 1
    left, right = sorted((list(one[first : len(one) - end]), list(other[first : len(other) - end])), key=len)
    if len(right) < 2:  # nothing, a word more, or another word
        return True
    if len(right) > 2 or not left:
        return False
    return left == right[::-1] if len(left) == 2 else left[0] == right[0] + right[1]


class WordIndex:
    """Held-out sentences of one language, and what they are called."""

    def __init__(self) -> None:
        self._sentences: list[tuple[list[str], int]] = []
        self._places: dict[int, list[int]] = defaultdict(list)

    def add(self, text: str, name: int) -> None:
        """Add a sentence; one that is too short is near to nothing."""
        words = words_of(text)
        if len(words) < FEWEST:
            return
        self._sentences.append((words, name))
        for key in set(variants(words)):
            self._places[key].append(len(self._sentences) - 1)

    def near(self, text: str) -> set[int]:
        """Return the names of the sentences that `text` is at most one word from."""
        words = words_of(text)
        if len(words) < FEWEST or not self._sentences:
            return set()
        places: set[int] = set()
        for key in variants(words):
            places.update(self._places.get(key, ()))
        return {name for held, name in map(self._sentences.__getitem__, places) if within_one_word(words, held)}


class HeldOutWords:
    """The held-out pairs of a corpus: an index a side."""

    def __init__(self, pairs: Iterable[tuple[str, str, int]]) -> None:
        """`pairs`: source, target and name of each."""
        self._sides = (WordIndex(), WordIndex())
        for *texts, name in pairs:
            for index, text in zip(self._sides, texts, strict=True):
                index.add(str(text), int(name))

    def near(self, source: str, target: str) -> set[int]:
        """Return the names of the pairs that have a side at most one word from the pair's."""
        return self._sides[0].near(source) | self._sides[1].near(target)
