"""Normalisation: known answers, idempotence, and whole blocks equal to single lines."""

import random
import sys
import unicodedata
from typing import Literal

import pytest
import regex

from dragoman.model.text.normalise import FORMS, has_invisible, has_loose_space, normalise, normalise_lines

PIECES = ["a", "é", "e\u0301", "\u0301", " ", "  ", "\t", "\x00", "\x85", "\xa0", "\u2028", "\x1c", "\u200b", "\u200d"]
PIECES += ["ក", "្", "अ", "\u200c", "\u202e", "🏴", "\U000e0067", "\U000e007f", "\ufe0f"]
PIECES += ["ﬁ", "Å", "가", "\u1100\u1161", "\ufeff", "\u00ad", "\x92", "\x81", "…", "ß", "´", "\u3000", "😀", "\ud800"]


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  two   spaces ", "two spaces"),
        ("tab\there", "tab here"),
        ("Vraiment\u202f?", "Vraiment ?"),
        ("one\x85two\u2028three\x0bfour\x0cfive", "one two three four five"),
        ("\ufeffmark", "mark"),
        ("nul\x00byte", "nulbyte"),
        ("cafe\u0301", "café"),
        ("e\u200b\u0301", "é"),
        ("it\x92s \x93so\x94", "it’s “so”"),
        ("Silben\u00adtrennung", "Silbentrennung"),
        ("first\nsecond\r\n", "first second"),
        ("लोग\u200dों", "लोग\u200dों"),
        ("ᠨᠠᠷ\u180eᠠ a\u180eb \u180eᠨ", "ᠨᠠᠷ\u180eᠠ ab ᠨ"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("Auf\u200clage", "Auflage"),
        ("अ\u200d\u200d", "अ\u200d"),
        ("\u202eevil\u202c \u200fعربي\u200e", "evil عربي"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥", "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥"),
        (
            "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
            "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        ),
        ("hi\U000e0061\U000e0062", "hi"),
        ("ខ្ញុំ\u200bស្រលាញ់\u200b\u200bអ្នក\u200b", "ខ្ញុំ\u200bស្រលាញ់\u200bអ្នក"),
        ("zero\u200bwidth", "zerowidth"),
        ("\u0600١٢", "\u0600١٢"),
        ("\ud83d", ""),
        ("", ""),
    ],
)
def test_known_answers(raw: str, clean: str) -> None:
    assert normalise(raw) == clean


def test_nfkc_unfolds_compatibility_characters_and_nfc_does_not() -> None:
    assert normalise("ﬁne ①", "NFKC") == "fine 1"
    assert normalise("ﬁne ①", "NFC") == "ﬁne ①"


@pytest.mark.parametrize("form", FORMS)
def test_is_idempotent_and_leaves_no_odd_space(form: str) -> None:
    rng = random.Random(7)
    for _ in range(3000):
        text = "".join(rng.choices(PIECES, k=rng.randint(0, 12)))
        once = normalise(text, form)
        assert normalise(once, form) == once
        assert once == " ".join(once.split())
        assert unicodedata.is_normalized(form, once)
        assert not has_invisible(once)
        once.encode()


@pytest.mark.parametrize("form", FORMS)
def test_a_block_is_normalised_as_its_lines_are(form: str) -> None:
    rng = random.Random(8)
    for _ in range(500):
        lines = ["".join(rng.choices(PIECES, k=rng.randint(0, 6))) for _ in range(rng.randint(1, 8))]
        assert normalise_lines("\n".join(lines), form).split("\n") == [normalise(line, form) for line in lines]


def test_the_naughty_strings_stay_encodable_and_stable(naughty: list[str]) -> None:
    for form in FORMS:
        for text in naughty:
            once = normalise(text, form)
            assert normalise(once, form) == once
            assert "\n" not in once
            assert once.encode().decode() == once


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_what_is_taken_out_or_folded_is_never_printable(form: Literal["NFC", "NFKC"]) -> None:
    """By which clean text is known at a glance: over all of Unicode, as it stands and normalised."""
    everything = "".join(map(chr, range(sys.maxunicode + 1))).replace("\n", "")
    printable = "".join(character for character in everything if character.isprintable())
    for text in (printable, unicodedata.normalize(form, printable)):
        assert not has_invisible(text)
        assert not has_loose_space(text.replace(" ", ""))


def test_invisible_characters_are_those_of_unicode_s_categories() -> None:
    written = regex.compile(r"[\p{Prepended_Concatenation_Mark}\U00013430-\U0001343f]")
    for character in map(chr, range(sys.maxunicode + 1)):
        named = unicodedata.category(character) in ("Cc", "Cf", "Cs") and not written.match(character)
        assert has_invisible(character) == (named and not character.isspace()), ascii(character)
