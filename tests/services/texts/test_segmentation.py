"""Where texts are cut: the short ways find what the long ways find."""

import random

import pytest
import regex

from dragoman.model.text import loops, sentences
from dragoman.services.texts import segmentation
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import find_masks
from dragoman.services.texts.runs import Run

NEVER, ALWAYS = regex.compile(r"(?!)"), regex.compile("")
PIECES = [
    *("The dog", "sees", "a man", "Don’t", "well-known", "über", "Ü", "犬が見る", "Δεν", "e\u0301", "no"),
    *(" ", " ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\u2028", "\u3000"),
    *(".", ". ", "!", "? ", "…", "。", "།", ";", ":", ",", ", ", "-", " - ", "- ", "'", '"', "“", "”", "’", "(", ")"),
    *("|", "1.", "a) ", "#", "*", "/", "Z.B. ", "Mr. ", "7"),
]


def texts() -> list[str]:
    drawn = random.Random(1)
    found = ["".join(drawn.choices(PIECES, k=drawn.randrange(1, 12))) for _ in range(3000)]
    return [*found, "The dog sees the man.", "The dog sees the man", "x" * 401, "The dog " * 60 + "sees"]


def test_a_plain_sentence_is_found_the_short_way_as_by_the_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given = texts()

    def found() -> list[object]:
        runs = [Run(text, list(find_masks(text))) for text in given]
        return [segmentation.find_segments(run, TextOptions(), "en", 400) for run in runs]

    short = found()
    plain = [text for text in given if segmentation._SENTENCE.fullmatch(text)]
    assert len(plain) > 50
    monkeypatch.setattr(segmentation, "_SENTENCE", NEVER)
    assert found() == short


def test_a_line_without_an_inner_stop_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    given = texts()

    def found() -> list[object]:
        return [sentences.split(text, 400, "en") for text in given]

    short = found()
    monkeypatch.setattr(sentences, "_INNER_STOP", ALWAYS)
    assert found() == short


@pytest.mark.parametrize("text", ["Bilililililil", "so lalalalala. lolololo", "the bananana", "a-lalalalala-b"])
def test_a_loop_inside_of_a_word_is_found_by_looking_at_long_words_alone(text: str) -> None:
    rounds = [len(run.group()) // len(run.group(1)) - 1 for run in loops._INSIDE.finditer(text)]
    assert loops.most_repeats(text) == max(rounds, default=1)
