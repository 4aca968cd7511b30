"""Finds sentences that are nearly a held-out one: misspelt, one word apart, or joined to another sentence.

| rule | a text is near a held-out sentence when |
| --- | --- |
| `leaked_letter` | a letter is added, removed or replaced, or two are swapped; ignoring blanks, case, punctuation |
| `leaked_words` | the same of a word, or two words are joined, or one is cut in two |
| `leaked_joined` | it begins or ends with the whole sentence, or contains it between sentence marks |

Candidates come from an index of hashes: of the held-out sentences with each word removed and each two adjacent words
joined, and of the texts' parts. An exact comparison follows, so nothing is dropped by chance. Only the held-out
sentences are in memory. In scripts without spaces a word is a character.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import regex

LETTER, WORDS, JOINED = RULES = ("leaked_letter", "leaked_words", "leaked_joined")  # in order of precedence
FEWEST = 3  # words of the shorter sentence: "go home" is one word from every sentence of two
FEWEST_LETTERS = 8  # of a sentence with fewer words, for which only misspellings count
LONG = 30  # letters of a sentence of FEWEST words that counts at the edge of a text without a sentence mark beside it
# A letter of a script without spaces is a word (Thai, Lao, Burmese, Khmer, kana, ideographs), otherwise a run of
# letters with their marks and joiners: words of Hindi may differ only in a vowel sign.
UNSPACED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
WORD = regex.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[\p{{L}}\p{{M}}\p{{N}}\u200c\u200d])+|([.!?…։؟۔।።။。！？])")
Words = Sequence[str]
_PRIME, _BASE = 2**61 - 1, 0x1F3D5B79A2C4E687
_POWERS = [1]


def words_of(text: str) -> list[str]:
    """Returns the words of a text, without letter case and punctuation."""
    return sentences_of(text)[0]


def sentences_of(text: str) -> tuple[list[str], list[int]]:
    """Returns the words of a text as `words_of`, and the indices where a sentence may begin or end."""
    folded = "".join(letter for letter in text.casefold() if letter not in "'’")
    words: list[str] = []
    borders: list[int] = []
    for match in WORD.finditer(folded):
        if match.group(1) is None:
            words.append(match.group())
        else:
            borders.append(len(words))
    return words, sorted({0, *borders, len(words)})


class Hashes:
    """Hashes of parts of a sequence, each in constant time (Rabin and Karp 1987)."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._until = [0]
        for word in words:
            self._until.append((self._until[-1] * _BASE + hash(word)) % _PRIME)
        while len(_POWERS) <= len(words):
            _POWERS.append(_POWERS[-1] * _BASE % _PRIME)

    def part(self, first: int, end: int) -> int:
        """Returns the hash of the words from `first` up to `end`."""
        return (self._until[end] - self._until[first] * _POWERS[end - first]) % _PRIME

    def variants(self) -> Iterator[int]:
        """Yields hashes; sentences that are at most one word apart have at least one in common."""
        words, count = self._words, len(self._words)
        yield self._until[count]
        for place in range(count):
            rest, power = self.part(place + 1, count), _POWERS[count - place - 1]
            yield (self._until[place] * power + rest) % _PRIME
            if place:
                joined = self._until[place - 1] * _BASE + hash(words[place - 1] + words[place])
                yield (joined * power + rest) % _PRIME


def within_one_word(words: Words, other: Words) -> bool:
    """Returns True if two sentences are equal or one word apart; for strings, one letter apart."""
    if abs(len(words) - len(other)) > 1:
        return False
    first = 0
    while first < min(len(words), len(other)) and words[first] == other[first]:
        first += 1
    end = 0
    while end < min(len(words), len(other)) - first and words[-1 - end] == other[-1 - end]:
        end += 1
    left, right = sorted((list(words[first : len(words) - end]), list(other[first : len(other) - end])), key=len)
    if len(right) < 2:  # equal, a word added, or a word replaced
        return True
    if len(right) > 2 or not left:
        return False
    return left == right[::-1] if len(left) == 2 else left[0] == right[0] + right[1]


class WordIndex:
    """Held-out sentences of one language, with their names."""

    def __init__(self) -> None:
        self._sentences: list[tuple[list[str], int]] = []
        self._near: dict[int, list[int]] = defaultdict(list)
        self._whole: dict[int, list[int]] = defaultdict(list)

    def add(self, text: str, name: int) -> None:
        """Adds a sentence; one that is too short matches nothing."""
        words = words_of(text)
        units = _units(words)
        if not units:
            return
        hashes = Hashes(units)
        for key in set(hashes.variants()):
            self._near[key].append(len(self._sentences))
        if len(words) >= FEWEST:
            self._whole[hashes.part(0, len(words))].append(len(self._sentences))
        self._sentences.append((words, name))

    def near(self, text: str) -> dict[int, str]:
        """Returns the names of the sentences that `text` is near, each with its rule."""
        words, borders = sentences_of(text)
        units = _units(words)
        if not units or not self._sentences:
            return {}
        hashes, near_of = Hashes(units), {}
        if len(words) > FEWEST:
            for first, end in _parts(borders, len(words)):
                for place in self._whole.get(hashes.part(first, end), ()):
                    held, name = self._sentences[place]
                    if words[first:end] == held and _stands_apart(first, end, words, borders):
                        near_of[name] = JOINED
        for place in {place for key in hashes.variants() for place in self._near.get(key, ())}:
            held, name = self._sentences[place]
            if within_one_word("".join(words), "".join(held)):
                near_of[name] = LETTER
            elif len(words) >= FEWEST <= len(held) and within_one_word(words, held):
                near_of[name] = first_rule(near_of.get(name, WORDS), WORDS)
        return near_of


def first_rule(*rules: str) -> str:
    """Returns the rule that takes precedence."""
    return min(rules, key=RULES.index)


def _units(words: Words) -> Words:
    """Returns the units of comparison: words, or the letters of a short sentence, or nothing if it is too short."""
    if len(words) >= FEWEST:
        return words
    letters = "".join(words)
    return letters if len(letters) >= FEWEST_LETTERS else ""


def _parts(borders: Sequence[int], count: int) -> Iterator[tuple[int, int]]:
    """Yields (first, end) of the parts of a text that may be a sentence: its beginnings, its ends, its sentences."""
    for place in range(FEWEST, count):
        yield 0, place
        yield count - place, count
    yield from ((first, end) for first, end in pairwise(borders) if first and end < count and end - first >= FEWEST)


def _stands_apart(first: int, end: int, words: Words, borders: Sequence[int]) -> bool:
    """Returns True if a part is more than a phrase: it is between sentence marks, or long."""
    return (first in borders and end in borders) or len("".join(words[first:end])) >= LONG


class HeldOutWords:
    """The held-out pairs of a corpus, with one index per side."""

    def __init__(self, pairs: Iterable[tuple[str, str, int]]) -> None:
        """`pairs`: (source, target, name) of each."""
        self._sides = (WordIndex(), WordIndex())
        for *texts, name in pairs:
            for index, text in zip(self._sides, texts, strict=True):
                index.add(str(text), int(name))

    def near(self, source: str, target: str) -> dict[int, str]:
        """Returns the names of the pairs with a side that the given pair's side is near, each with its rule."""
        near_sources, others = self._sides[0].near(source), self._sides[1].near(target)
        return near_sources | {name: first_rule(rule, near_sources.get(name, rule)) for name, rule in others.items()}
