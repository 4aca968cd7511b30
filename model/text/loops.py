"""Texts that go round: words, phrases or letters that a network says again and again, as it does where it is lost."""

from collections.abc import Sequence

import regex

from model.text.letters import WORD_OR_MARK, is_blankless

LONGEST = 12  # words of a phrase, or letters where words are not spaced
OFTEN = 3  # a word that is said once more than this, or a phrase so often, in a row: "very very very" is speech
_INSIDE = regex.compile(r"(\p{L}{2,8}?)\1{3,}")  # of a word: "Bilililililil"


def goes_round(translation: str, source: str = "") -> bool:
    """Return True if a translation repeats itself where its source does not."""
    found = most_repeats(translation)
    return found >= OFTEN and found > most_repeats(source)


def most_repeats(text: str) -> int:
    """Return how often the most repeated phrase of a text stands in a row; a single word counts one less."""
    units = [part for word in WORD_OR_MARK.findall(text) for part in (word if is_blankless(word[0]) else (word,))]
    inside = max((len(run.group()) // len(run.group(1)) - 1 for run in _INSIDE.finditer(text)), default=1)
    if len(set(units)) == len(units):
        return inside
    return max(inside, *(_in_a_row(units, length) for length in range(1, LONGEST + 1)))


def _in_a_row(units: Sequence[str], length: int) -> int:
    """Return how often one phrase of so many units stands in a row at most; 1 for marks alone."""
    most = run = 0
    for place in range(len(units) - length):
        run = run + 1 if units[place] == units[place + length] else 0
        if run > most and any(unit[0].isalnum() for unit in units[place : place + length]):
            most = run
    return most // length + (length > 1)
