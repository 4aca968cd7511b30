"""Sentences for the pictures: the user's, or some of the held-out set."""

from collections.abc import Sequence
from typing import TypeVar

from dragoman.model.text.letters import words_of

Item = TypeVar("Item")

MAP_WORDS = (8, 14)  # words of a sentence whose map is readable


def map_sentences(wanted: Sequence[str], sources: Sequence[str], count: int) -> list[str]:
    """Returns the user's sentences, or some of the held-out set, of readable length and spread over the whole set."""
    if wanted:
        return list(dict.fromkeys(wanted))
    low, high = MAP_WORDS
    different = [text for text in dict.fromkeys(sources) if text.strip()]
    return pick_evenly([text for text in different if low <= len(words_of(text)) <= high] or different, count)


def pick_evenly(items: Sequence[Item], count: int) -> list[Item]:
    """Returns `count` of the items, evenly from the first to the last."""
    count = min(count, len(items))
    return [items[round(place * (len(items) - 1) / max(1, count - 1))] for place in range(count)]
