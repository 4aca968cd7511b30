"""Sentences for the pictures: the user's, ours for a language, or some of the held-out set."""

from collections.abc import Sequence
from typing import TypeVar

from dragoman.model.text.letters import words_of

Item = TypeVar("Item")

# Three ways each to say four things: who gives to whom, who chases whom. Word order and voice change while the meaning
# stays, and the meaning changes while the words stay (after figure 2 of Sutskever et al. 2014).
STATES = {
    "en": """
A man is giving a ball to a woman.
A man is giving a woman a ball.
A ball is given to a woman by a man.

A woman is giving a ball to a man.
A woman is giving a man a ball.
A ball is given to a man by a woman.

A dog is chasing a child in the park.
In the park, a dog is chasing a child.
A child is chased by a dog in the park.

A child is chasing a dog in the park.
In the park, a child is chasing a dog.
A dog is chased by a child in the park.
""",
    "de": """
Ein Mann gibt einer Frau einen Ball.
Einer Frau gibt ein Mann einen Ball.
Ein Ball wird einer Frau von einem Mann gegeben.

Eine Frau gibt einem Mann einen Ball.
Einem Mann gibt eine Frau einen Ball.
Ein Ball wird einem Mann von einer Frau gegeben.

Ein Hund jagt ein Kind im Park.
Im Park jagt ein Hund ein Kind.
Ein Kind wird im Park von einem Hund gejagt.

Ein Kind jagt einen Hund im Park.
Im Park jagt ein Kind einen Hund.
Ein Hund wird im Park von einem Kind gejagt.
""",
}
MAP_WORDS = (8, 14)  # words of a sentence whose map is readable
STATE_COUNT = 12


def map_sentences(wanted: Sequence[str], sources: Sequence[str], count: int) -> list[str]:
    """Returns the user's sentences, or some of the held-out set, of readable length and spread over the whole set."""
    if wanted:
        return list(dict.fromkeys(wanted))
    low, high = MAP_WORDS
    different = [text for text in dict.fromkeys(sources) if text.strip()]
    return pick_evenly([text for text in different if low <= len(words_of(text)) <= high] or different, count)


def state_sentences(wanted: Sequence[str], language: str, sources: Sequence[str]) -> tuple[list[str], list[int]]:
    """Returns sentences, and a number for each that equal meanings share (all 0 if the meanings are not known).

    Uses the user's sentences, else ours for the language, else some of the held-out set.
    """
    if not wanted and language in STATES:
        meanings = STATES[language].strip().split("\n\n")
        every = [(text, number) for number, texts in enumerate(meanings) for text in texts.split("\n")]
        return [text for text, _ in every], [number for _, number in every]
    chosen = list(dict.fromkeys(wanted))
    if not chosen:
        different = [text for text in dict.fromkeys(sources) if text.strip()]
        chosen = pick_evenly(
            [text for text in different if len(words_of(text)) <= MAP_WORDS[1]] or different, STATE_COUNT
        )
    return chosen, [0] * len(chosen)


def pick_evenly(items: Sequence[Item], count: int) -> list[Item]:
    """Returns `count` of the items, evenly from the first to the last."""
    count = min(count, len(items))
    return [items[round(place * (len(items) - 1) / max(1, count - 1))] for place in range(count)]
