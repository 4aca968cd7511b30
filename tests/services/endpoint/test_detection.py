"""The language of a text: limited to the served ones, and true where it is none of them."""

import pytest

from dragoman.services.endpoint.detection import UNKNOWN, Detector

DETECTOR = Detector()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Hund schläft.", "de"),
        ("Two dogs.", "en"),  # Polish, if all languages were offered
        ("Ein Mann", "de"),
        ("Le chien dort sur le canapé.", "fr"),
        ("De hond slaapt op de bank.", "nl"),
        ("Эта собака всегда спит на моём диване, а кошка на полу.", "ru"),
        ("犬が寝ている。", "ja"),
        ("A MAN IN AN ORANGE HAT", "en"),
    ],
)
def test_another_language_wins_only_where_it_is_clear(text: str, language: str) -> None:
    assert DETECTOR.detect(text, ["en", "de"]).language == language


def test_a_served_language_is_spelled_as_it_is_served() -> None:
    assert DETECTOR.detect("O cachorro está dormindo no sofá.", ["pt_BR", "en"]).language == "pt-BR"
    assert DETECTOR.detect("狗在沙发上睡觉。", ["zho-Hans", "en"]).language == "zh-Hans"


def test_a_text_that_is_what_it_should_be_is_told_at_once() -> None:
    assert DETECTOR.agrees("Der Hund schläft im Haus meines Freundes.", "de-AT")
    assert not DETECTOR.agrees("Der Hund schläft im Haus meines Freundes.", "en")


def test_a_text_without_letters_is_in_no_language() -> None:
    assert DETECTOR.detect("12 + 30 = 42 🐕", ["en", "de"]) == UNKNOWN
    assert DETECTOR.rank("", ["en"]) == []


def test_confidences_are_percents_most_probable_first() -> None:
    found = DETECTOR.rank("Ein Mann", ["en", "de"])
    assert [guess.language for guess in found] == ["de", "en"]
    assert 50 < found[0].confidence < 100
    assert round(sum(guess.confidence for guess in found)) == 100


def test_nothing_is_said_against_a_language_that_the_library_does_not_know() -> None:
    assert DETECTOR.detect("Le chien dort sur le canapé.", ["tlh", "en"]).language == "en"


def test_a_word_of_a_living_language_is_not_latin_where_all_are_served() -> None:
    every = sorted(DETECTOR.known([label for label, _ in DETECTOR.load().rank("")]))
    assert "la" in every
    for word in ("Protonenstrahl", "protonenstrahl"):
        assert DETECTOR.detect(word, every).language == "de"
    assert DETECTOR.detect("Gallia est omnis divisa in partes tres.", every).language == "la"
    assert DETECTOR.detect("Quo usque tandem abutere patientia nostra?", ["en", "de"]).language == "la"
