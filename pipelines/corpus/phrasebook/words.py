"""Linked words: a German word knows the English words it comes from; text and alignment are read off at the end."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

TOKEN = re.compile(r"o'clock|'s|\w+(?:-\w+)*|[^\w\s]")
MARKS = frozenset({".", ",", "?", "!"})
CLOSING = (" .", " ,", " ?", " !", " 's")  # the space before them is not written


class Word:
    """One token of either side. `links` are the English words that a German word translates; empty for English."""

    __slots__ = ("links", "text")

    def __init__(self, text: str, links: tuple["Word", ...] = ()) -> None:
        self.text = text
        self.links = links


@dataclass(slots=True, eq=False)
class Phrase:
    """A constituent in both languages, with the features that agreement and word order ask for."""

    english: list[Word]
    german: list[Word]
    person: int = 3
    plural: bool = False
    gender: str = "n"  # m, f, n: of a singular
    pronoun: bool = False
    definite: bool = True
    tail: list[Word] = field(default_factory=list)  # German relative clause, moved behind the verb of an object
    key: str = ""  # the English lemma of the head noun, for the held-out combinations
    features: frozenset[str] = frozenset()  # of the head noun
    plain: bool = True  # neither quantified nor negative: may stand beside "not"


def english_words(text: str) -> list[Word]:
    return [Word(part) for part in text.split()]


def german_words(text: str, links: Iterable[Word]) -> list[Word]:
    """Every German word of a fixed expression linked to all words of its English counterpart."""
    shared = tuple(links)
    return [Word(part, shared) for part in text.split()]


def fixed(english: str, german: str) -> Phrase:
    """A set phrase; one-to-one where both sides have the same number of words, else all to all."""
    source = english_words(english)
    parts = german.split()
    if len(parts) == len(source):
        return Phrase(source, [Word(text, (word,)) for text, word in zip(parts, source, strict=True)])
    return Phrase(source, german_words(german, source))


def tidy(words: Sequence[Word]) -> list[Word]:
    """Drop a comma that stands before another mark: two clauses that end together need one comma only."""
    following = [*words[1:], None]
    return [
        word
        for word, after in zip(words, following, strict=True)
        if word.text != "," or after is None or after.text not in MARKS
    ]


def text_of(words: Sequence[Word]) -> str:
    """Sentence case, marks attached to the word before them."""
    line = " ".join([word.text for word in words])
    for mark in CLOSING:
        line = line.replace(mark, mark[1:])
    return line[0].upper() + line[1:]


def alignment_of(english: Sequence[Word], german: Sequence[Word]) -> list[tuple[int, int]]:
    """Pairs (English index, German index), sorted; indices count the tokens of `tokens()`."""
    place = {id(word): index for index, word in enumerate(english)}
    pairs = {(place[id(link)], index) for index, word in enumerate(german) for link in word.links if id(link) in place}
    return sorted(pairs)


def tokens(line: str) -> list[str]:
    """The units that alignments count: words (hyphens inside), the possessive 's, and each punctuation mark."""
    return TOKEN.findall(line)
