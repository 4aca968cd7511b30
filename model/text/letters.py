"""Defines letters, words and letter case once, for vocabularies, sentences and spelling.

Unicode decides, not one alphabet. A word starts with a letter, a number or an underscore and continues with letters,
marks, numbers and joiners (General_Category, Unicode Standard Annex 44), so vowel signs, points and accents stay in
their word. One hyphen, apostrophe, full stop or comma between two such parts stays inside: "can't", "3.14", "U.S".

Thai, Lao, Khmer, Burmese, Chinese and Japanese put no blank between words. A zero-width space is a border there, as
everywhere; otherwise `segment` uses the dictionaries of ICU, by the optional package icu4py.

Lower case follows the language where Unicode's SpecialCasing does: I is i in English and ı in Turkish.
"""

import importlib.util
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Literal

import regex

from dragoman.model.errors import UserError
from dragoman.model.languages import base_language

Segmenter = Literal["icu", "none"]
ZERO_WIDTH_SPACE, NON_JOINER, JOINER = "\u200b", "\u200c", "\u200d"
VOWEL_SEPARATOR = "\u180e"  # Mongolian: before a final a or e, whose form it decides
GLUE = "-‐‑־'’‘.,·‧״׳"  # one of them between two parts of a word belongs to it
_START, _INSIDE = r"[\p{L}\p{N}_]", r"[\p{L}\p{M}\p{N}_\u180e\u200c\u200d]"
ONLY_WORD = regex.compile(rf"{_START}{_INSIDE}*(?:[{GLUE}]{_START}{_INSIDE}*)*")
# A mark is all that a reader sees as one character: an emoji with its modifiers, a flag.
WORD_OR_MARK = regex.compile(rf"{ONLY_WORD.pattern}|(?![\s\u200b-\u200d])\X")
_BLANKLESS = r"\p{Line_Break=SA}\p{Han}\p{Hiragana}\p{Katakana}ー"  # SA: Thai, Lao, Khmer, Burmese and their kin
_BLANKLESS_RUN = regex.compile(rf"[{_BLANKLESS}][{_BLANKLESS}\p{{M}}]*")
_BLANKLESS_LETTER = regex.compile(f"[{_BLANKLESS}]")


# Languages whose lower case differs from Unicode's default. SpecialCasing names tr, az and lt; the alphabets of
# Crimean Tatar and Gagauz are the Turkish one. Python's own `lower` knows the final sigma of Greek and the capital ẞ.
DOTLESS = frozenset(("tr", "az", "crh", "gag"))
CASED_APART = DOTLESS | {"lt"}
_DOT = "\u0307"  # which Lithuanian i and j keep below an accent
_DOTTED = regex.compile(rf"(?<=[ijį]){_DOT}")
_TONOS = regex.compile(r"(?<=\p{Greek}\p{M}*)\u0301")
_BELOW_ACCENT = regex.compile(r"[IJĮ](?=[^\p{ccc=0}\p{ccc=230}]*\p{ccc=230})|[ÌÍĨ]")


def case_language(language: str) -> str:
    """Returns the language's code if it has its own lower case, else an empty text."""
    base = base_language(language)
    return base if base in CASED_APART else ""


def fold_case(text: str, language: str = "") -> str:
    """Returns the text in the lower case of its language (empty: unknown), in which words are counted."""
    language = language and case_language(language)
    if language in DOTLESS:
        text = text.replace(f"I{_DOT}", "i").replace("İ", "i").replace("I", "ı")
    elif language:
        text = _BELOW_ACCENT.sub(_keep_dot, text)
    return text.lower()


def upper_case(text: str, language: str = "") -> str:
    """Returns the text in the capitals of its language: İ in Turkish, no accents in Greek, no dot in Lithuanian."""
    base = base_language(language) if language else ""
    if base in DOTLESS:
        text = text.replace("i", "İ")
    elif base == "lt":
        text = _DOTTED.sub("", text)
    elif base == "el":
        text = unicodedata.normalize("NFC", _TONOS.sub("", unicodedata.normalize("NFD", text)))
    return text.upper()


def capitalise(text: str, language: str = "") -> str:
    """Returns the text with a first capital of its language: IJs in Dutch, İ in Turkish."""
    base = base_language(language) if language else ""
    if base == "nl" and text[:2] == "ij":
        return f"IJ{text[2:]}"
    if base == "lt":
        text = _DOTTED.sub("", text[:2]) + text[2:]
    return ("İ" if base in DOTLESS and text[:1] == "i" else text[:1].title()) + text[1:]


def _keep_dot(match: regex.Match[str]) -> str:
    dot = match.group()
    parts = unicodedata.normalize("NFD", dot) if dot in "ÌÍĨ" else dot  # Į stays one character
    return parts[0].lower() + _DOT + parts[1:]


def is_plain_word(string: str) -> bool:
    """Returns True if a string without blanks is one word as it stands; False where `ONLY_WORD` has to look."""
    return string.isalnum() and (string.isascii() or _BLANKLESS_RUN.search(string) is None)


def is_blankless(character: str) -> bool:
    """Returns True if the character is of a script that puts no blank between words."""
    return _BLANKLESS_LETTER.fullmatch(character) is not None


@cache
def has_icu() -> bool:
    """Returns True if the package icu4py is installed."""
    return importlib.util.find_spec("icu4py") is not None


def check_segmenter(segmenter: Segmenter, where: str) -> None:
    """Refuse a segmenter that is not installed."""
    if segmenter == "icu" and not has_icu():
        raise UserError(f"{where}: its words were found by ICU; install icu4py (pip install icu4py)")


def segment(words: Sequence[str], segmenter: Segmenter) -> list[str]:
    """Returns the words with each run of a script without blanks cut into its words."""
    if segmenter == "none":
        return list(words)
    parts: list[str] = []
    for word in words:
        if word.isascii():
            parts.append(word)
            continue
        start = 0
        for run in _BLANKLESS_RUN.finditer(word):
            parts += [word[start : run.start()], *_dictionary_words(run.group())]
            start = run.end()
        parts.append(word[start:])
    return [part for part in parts if part]


def words_of(text: str) -> list[str]:
    """Returns what stands between blanks, in scripts without blanks by ICU's dictionaries if they are installed."""
    return segment(text.split(), "icu" if has_icu() else "none")


def _dictionary_words(run: str) -> list[str]:
    if len(run) == 1:
        return [run]
    check_segmenter("icu", "tokenizer.segmenter=icu")
    from icu4py.breakers import WordBreaker

    return list(WordBreaker(run, "en"))  # ICU chooses the dictionary by script
