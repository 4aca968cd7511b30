"""The state of one sentence in the making: the random source and the combinations of lexemes that it used."""

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import TypeVar

from dragoman.pipelines.corpus.phrasebook.adjectives import ADJECTIVES, COLORS, Adjective
from dragoman.pipelines.corpus.phrasebook.nouns import NOUNS, Noun
from dragoman.pipelines.corpus.phrasebook.places import PLACE_ROWS, Place

Item = TypeVar("Item")


class Draft:
    """Random choices, and the record of what was combined with what (the keys of the held-out splits)."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.random = rng.random
        self.combinations: list[str] = []

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self.random() * len(items))]

    def combine(self, kind: str, first: str, second: str) -> None:
        if first and second:
            self.combinations.append(f"{kind}:{first}+{second}")


@cache
def nouns_with(features: frozenset[str]) -> tuple[Noun, ...]:
    """The nouns that have, or are named, any of the features; places have theirs in `places_with`."""
    found = [noun for noun in NOUNS if (noun.features | {noun.english}) & features]
    return tuple(found + [place.noun for place in PLACE_ROWS if place.noun.features & features])


@cache
def places_with(features: frozenset[str]) -> tuple[Place, ...]:
    """The places that have any of the features."""
    return tuple(place for place in PLACE_ROWS if place.noun.features & features)


@cache
def adjectives_for(noun: Noun) -> tuple[tuple[Adjective, ...], tuple[Adjective, ...]]:
    """The adjectives that go with a noun: qualities, and colours (which stand after them)."""
    fitting = [adjective for adjective in ADJECTIVES if adjective.goes_with & (noun.features | {noun.english})]
    return (
        tuple(adjective for adjective in fitting if adjective.english not in COLORS),
        tuple(adjective for adjective in fitting if adjective.english in COLORS),
    )
