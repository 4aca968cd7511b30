"""The plain way of a plain sentence gives what the usual way gives, with fewer calls."""

import asyncio
from typing import Any

import pytest

from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint import route_translator
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.plain_sentences import is_plain
from dragoman.services.endpoint.route_translator import RouteTranslator
from dragoman.services.endpoint.translation import Answer
from dragoman.services.models.catalogue import Route
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.options import TextOptions
from tests.services.endpoint.conftest import Shouting, served

PLAIN = (
    "The dog sees the man.",
    "the dog, the cat and the cow see a man.",
    "I don't see a well-known man!",
    "Élodie voit le chien et l'homme.",
    "Do you see the dog?",
)
OTHERS = (
    *(
        "The dog sees.",
        "The dog sees the man",
        "The dog sees 2 men.",
        "THE DOG SEES A MAN.",
        "The dog  sees the man.",
    ),
    *(
        "The dog sees the man. It sleeps.",
        "The dog sees\nthe man.",
        "See the dog at example.org.",
        "The {dog} sees a man.",
    ),
    *('The dog sees "the" man.', "The dog’s man sees the cat.", " The dog sees the man.", "The US dog sees the man."),
    *("Der Hund sieht 犬 und den Mann.", "- The dog sees the man.", "The dog sees the man...", "The dog sees the man:"),
)


@pytest.mark.parametrize("text", PLAIN)
def test_a_sentence_of_words_is_plain(text: str) -> None:
    assert is_plain(text, TextOptions(), 400)
    assert not is_plain(text, TextOptions(), len(text) - 1)
    assert not is_plain(text, TextOptions(format="html"), 400)
    assert not is_plain(text, TextOptions(glossary=Glossary({"dog": "Hund"})), 400)


@pytest.mark.parametrize("text", OTHERS)
def test_anything_else_is_not(text: str) -> None:
    assert not is_plain(text, TextOptions(), 400)


class Saying(Shouting):
    """A translator that says what it is told to."""

    said: Translation

    def one(self, line: str, nbest: int) -> Translation:
        return self.said


def answer(model: LoadedModel, text: str) -> tuple[Answer, list[list[str]]]:
    """Returns the answer to a text, and what the model was asked."""
    asked: list[list[str]] = []

    async def ask(model: LoadedModel, lines: list[str], nbest: int) -> list[Translation]:
        asked.append(lines)
        return model.translate(lines, nbest)

    translator = RouteTranslator(ask, Metrics(), 400)
    return asyncio.run(translator.translate(Route((model,)), [text], TextOptions()))[0], asked


@pytest.mark.parametrize("text", PLAIN[1:3])
@pytest.mark.parametrize(
    "said",
    [
        Translation("der Hund sieht den Mann.", 0.0),
        Translation("Er sieht ihn", 0.0),
        Translation("Der Hund?", 0.0),
        Translation("ein Hund...", 0.0),
        Translation("", 0.0),
        Translation("Der Hund.", 0.0, truncated=True),
        Translation("Der Hund.", 0.0, unknown=1, missing=("man",)),
        Translation("der Hund der Hund der Hund der Hund.", 0.0, loops=True),
        Translation("Der Hund.", 0.0, loop_broken=True),
    ],
)
def test_both_ways_give_the_same_answer(monkeypatch: pytest.MonkeyPatch, text: str, said: Translation) -> None:
    translator: Any = Saying()
    translator.open.set()
    translator.said = said
    model = served(translator)
    plainly, asked = answer(model, text)
    monkeypatch.setattr(route_translator, "is_plain", lambda *_: False)
    usual, usually = answer(model, text)
    assert plainly == usual
    assert asked == usually, "nothing is translated twice"
