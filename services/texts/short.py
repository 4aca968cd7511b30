"""Texts of a few words: of all that a model answers, the translation that repeats no word.

Models learn sentences, and fill what is shorter: "dog" becomes "Ein Hund Hund". Such a text is asked for with several
alternatives, and a single word in small letters too; the first answer without a repeated word is taken.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import regex

from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.languages import base_language
from dragoman.services.texts import casing
from dragoman.services.texts.lines import SHORT, Line

Form = Literal["", "small", "given"]  # the line as any other; in small letters; with the capitals of the text
NBEST = 5  # answers to it
BETTER = 0.5  # of the log probability, by which another form has to be more probable
_WORD = regex.compile(r"[\p{L}\p{M}]+")
_TWICE = regex.compile(r"(?<![\p{L}\p{M}'’])([\p{L}\p{M}]+)(?:\s+\1(?![\p{L}\p{M}]))+", regex.IGNORECASE)


def is_short(line: Line) -> bool:
    """Returns True for a line of a few words without anything that must not change."""
    if line.stood or line.shown or line.anchors or line.softs or len(line.text) > 40 * SHORT:
        return False
    words = _words(line.text)
    return 0 < len(words) <= SHORT and len(set(words)) == len(words)


def forms(line: Line, language: str) -> Sequence[Form]:
    """Returns the forms in which a short line is given to the model."""
    if len(_words(line.text)) > 1 or line.small or base_language(language or "und") in casing.NOUN_CAPITALS:
        return ("",)
    return ("", "small", "given") if line.shouted else ("", "small")


def choose(answers: Sequence[tuple[Line, Translation]]) -> tuple[Line, Translation, bool]:
    """Returns the best form and its translation, and whether the model's own choice repeated a word."""
    best: tuple[Line, Translation] | None = None
    mark = (0, 0.0)
    for line, translation in answers:
        chosen, repeats, probability = _without_repeats(translation)
        if best is None or (-repeats, probability) > (mark[0], mark[1] + (BETTER if -repeats == mark[0] else 0)):
            best, mark = (line, chosen), (-repeats, probability)
    assert best is not None
    return *best, _repeats(answers[0][1].text) > 0


def _without_repeats(translation: Translation) -> tuple[Translation, int, float]:
    """Returns the translation with the best of its alternatives first, how many words that repeats, its probability."""
    alternatives = translation.nbest or [Alternative(translation.text, translation.score)]
    candidates = [
        (
            alternative
            if _repeats(alternative.text) == 0
            else replace(alternative, text=_TWICE.sub(r"\1", alternative.text))
        )
        for alternative in alternatives
    ]
    best = candidates[0]
    if _repeats(alternatives[0].text):
        best = min(candidates, key=lambda alternative: (_repeats(alternative.text), -alternative.log_probability))
    texts = dict.fromkeys((best.text, *(alternative.text for alternative in candidates)))
    nbest = [next(alternative for alternative in (best, *candidates) if alternative.text == text) for text in texts]
    attention = translation.attention if best.text == translation.text else ()  # of the first answer
    found_best = replace(translation, text=best.text, nbest=nbest, attention=attention)
    return found_best, _repeats(best.text), best.log_probability


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _repeats(text: str) -> int:
    words = _words(text)
    return len(words) - len(set(words))
