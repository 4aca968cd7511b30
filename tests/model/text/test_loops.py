"""Texts that go round are told from speech, numbers and rows of marks."""

import pytest

from dragoman.model.text.loops import goes_round


@pytest.mark.parametrize(
    "text",
    [
        "je je je je",
        "der Hund der Hund der Hund",
        "I see the dog of the dog of the dog of",
        "Bilililililist",
        "我喜欢我喜欢我喜欢",
        "कमल कमल कमल कमल",
    ],
)
def test_a_text_that_repeats_itself_goes_round(text: str) -> None:
    assert goes_round(text)
    assert not goes_round(text, source=text)


@pytest.mark.parametrize(
    "text", ["", "sehr sehr sehr gut", "..... !!!!!", "- - - - - -", "1000000000", "a b a b", "Schifffahrt", "ha ha ha"]
)
def test_speech_numbers_and_marks_do_not(text: str) -> None:
    assert not goes_round(text)
