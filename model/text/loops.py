"""Finds texts that repeat a word, a phrase or letters again and again, as a confused network does."""

import operator
from collections.abc import Sequence

import regex

from dragoman.model.text.letters import WORD_OR_MARK, is_blankless

LONGEST = 12  # words of a phrase, or letters in scripts without spaces
OFTEN = 3  # phrases in a row that are a loop; one more for a single word: "very very very" is normal speech
REPEATED = 6  # letters at least of a word with a loop in it that stand in it before
_INSIDE = regex.compile(r"(\p{L}{2,8}?)\1{3,}", regex.IGNORECASE)  # within a word: "Bilililililil"
_REST = r"\S{0,60}+"  # of a word: a longer one is none, and would be read again from each of its letters
# Between words: "to the to the to the", "very very very very"
_ROUNDS = regex.compile(
    rf"(?<!\w)(?:(\w{_REST}(?:\s+\S{_REST}){{1,11}}?)(?:\s+\1){{2,}}|(\w{_REST})(?:\s+\2){{3,}})(?!\w)",
    regex.IGNORECASE,
)


def goes_round(translation: str, source: str = "") -> bool:
    """Returns True if a translation repeats itself and its source does not."""
    repeats = most_repeats(translation)
    return repeats >= OFTEN and repeats > most_repeats(source)


def most_repeats(text: str) -> int:
    """Returns how often the most repeated phrase of a text occurs in a row; a single word counts one less."""
    text = text.casefold()  # "Na Na na na"
    units = WORD_OR_MARK.findall(text)
    # Four rounds of two letters or more repeat six letters at least: few words do, and the regular expression is slow.
    candidates = [word for word in dict.fromkeys(units) if len(word) - len(set(word)) >= REPEATED]
    if not text.isascii():
        units = [part for word in units for part in (word if is_blankless(word[0]) else (word,))]
    inside = (run for word in candidates for run in _INSIDE.finditer(word))
    most = max((len(run.group()) // len(run.group(1)) - 1 for run in inside), default=1)
    if len(set(units)) == len(units):
        return most
    for length in range(1, LONGEST + 1):
        same = bytes(map(operator.eq, units, units[length:]))
        longest = max(map(len, same.split(b"\0")))
        if longest // length + (length > 1) > most:  # seldom
            most = max(most, _in_a_row(units, length))
    return most


def collapse(text: str) -> str:
    """Returns a text with every loop of letters, words or phrases cut down to one round."""
    collapsed: str = _ROUNDS.sub(lambda match: match[1] or match[2], _INSIDE.sub(r"\1", text))
    return collapsed


def _in_a_row(units: Sequence[str], length: int) -> int:
    """Returns how often a phrase of so many units occurs in a row at most; 1 for marks alone."""
    most = run = 0
    for place in range(len(units) - length):
        run = run + 1 if units[place] == units[place + length] else 0
        if run > most and any(unit[0].isalnum() for unit in units[place : place + length]):
            most = run
    return most // length + (length > 1)
