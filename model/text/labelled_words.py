"""Words of a text, and what a model says of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# The words of a raw text: contracted endings ('s, n't), words with marks inside, and each mark by itself.
WORD = re.compile(
    r"n't\b|['’](?:s|re|ve|ll|d|m)\b|\w+?(?=n't\b)|\w+(?:[-.,]\w+|['’](?!(?:s|re|ve|ll|d|m|t)\b)\w+)*|[^\w\s]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Label:
    """A label and its probability."""

    label: str
    score: float


@dataclass(frozen=True)
class TaggedWord:
    """A word of a text, its place in the text's characters, and its tag."""

    word: str
    start: int
    end: int
    tag: str
    score: float


@dataclass(frozen=True)
class Words:
    """A text as words, with the place of each."""

    text: str
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    @classmethod
    def split(cls, text: str) -> "Words":
        """Splits a raw text into words and marks."""
        words = [(match[0], match.span()) for match in WORD.finditer(text)]
        return cls(text, tuple(word for word, _ in words), tuple(place for _, place in words))

    @classmethod
    def given(cls, words: Sequence[str]) -> "Words":
        """Takes words as they are; their places are those in the text that single spaces make of them."""
        starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
        places = tuple((start, start + len(word)) for start, word in zip(starts, words, strict=False))
        return cls(" ".join(words), tuple(words), places)
