"""The language of each text of a question: the one that the client names, or the one that is identified.

Nothing is translated as a language that it is not. Under `source=auto` a text in the target language, or in one that
nothing here translates, is copied. Where the client names another language than the text's, the text is translated as
asked. Both are reported.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.model.languages import language_name, nearest
from dragoman.services.endpoint.detection import UNKNOWN, Detector, Guess
from dragoman.services.endpoint.translation import Question
from dragoman.services.models.catalogue import Catalogue
from dragoman.services.texts.prepare import spoken_text
from dragoman.services.texts.translating import HERE, cost

SURE = 80.0  # percent; contradicts what the client says


@dataclass(frozen=True)
class Spoken:
    """The language of one text, and what is done about it."""

    language: str  # as asked for or identified
    confidence: float  # of the identification, in percent; 0: it was not identified
    copied: bool = False  # True: the text is its own translation
    found: Guess | None = None  # the text's real language, to be reported
    why: str = ""  # the report, in words

    def report(self) -> dict[str, Any]:
        """Returns the report for an answer's losses; empty if there is nothing to say."""
        if self.found is None:
            return {}
        kind = "copied" if self.copied else "wrong_language"
        return {kind: 1, "language": self.found.language, "warnings": [self.why]}


async def languages_of(question: Question, models: Catalogue, detector: Detector, check: bool) -> list[Spoken]:
    """Returns the language of every text. `check`: also look at texts whose language the client names."""
    if question.source is not None and not check:
        return [_asked(question, question.source, UNKNOWN, models) for _ in question.texts]
    if not detector.loaded:
        await asyncio.to_thread(detector.load)
    sources = models.view.sources(question.target)
    named = question.source

    def offered() -> list[str]:
        return list(dict.fromkeys([*sources, *models.view.targets]))

    def guess(words: str) -> Guess:
        return UNKNOWN if named is not None and detector.agrees(words, named) else detector.detect(words, offered())

    def guess_all() -> list[Guess]:
        return [guess(spoken_text(text, question.options)) for text in question.texts]

    size = (
        sum(map(len, question.texts)) if question.options.format == "text" else cost(question.texts, question.options)
    )
    guesses = guess_all() if size <= HERE else await asyncio.to_thread(guess_all)
    if named is not None:
        return [_asked(question, named, guess, models) for guess in guesses]
    return [_identified(question.target, guess, sources) for guess in guesses]


def _asked(question: Question, source: str, guess: Guess, models: Catalogue) -> Spoken:
    if models.view.is_one(source, question.target):
        return Spoken(source, 0.0, copied=True)
    if guess.confidence < SURE or nearest(guess.language, (source,)) or nearest(source, (guess.language,)):
        return Spoken(source, 0.0)
    why = f"the text looks like {language_name(guess.language)}, not {language_name(source)}"
    return Spoken(source, 0.0, found=guess, why=why)


def _identified(target: str, guess: Guess, sources: Sequence[str]) -> Spoken:
    if nearest(guess.language, tuple(sources)) or (guess is UNKNOWN and sources):
        return Spoken(guess.language or sources[0], guess.confidence)
    said, into = language_name(guess.language), language_name(target)
    if nearest(target, (guess.language,)):
        return Spoken(guess.language, guess.confidence, True, guess, f"the text is {said} already and was copied")
    why = f"the text looks like {said}, which no model here translates into {into}; it was copied"
    return Spoken(guess.language, guess.confidence, True, guess, why)
