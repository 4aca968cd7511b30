"""Rules that judge the texts of a pair by themselves, as `corpus.clean.rules` names them."""

from collections import Counter
from collections.abc import Callable, Sequence

import langcodes
import regex

from dragoman.model.text.loops import OFTEN, most_repeats

ALIKE = 97.0  # percent: sides that are as similar are no translations of each other
LEAST_SIGNS, MOST_SIGNS = 3, 0.1  # signs that are neither letters, numbers nor punctuation: in all, and a share
OWN_SCRIPT = 0.5  # least share of the letters
SEVERAL = {"Hans": ("Hani",), "Hant": ("Hani",), "Jpan": ("Hani", "Hira", "Kana"), "Kore": ("Hang", "Hani")}

_LETTER = regex.compile(r"\p{L}")
_THOUSANDS = regex.compile(r"(?<=\d)[.,'’\s](?=\d{3}(?!\d))")
_DIGITS = regex.compile(r"\d+")
# Words behind a number, by their power of ten; up to four letters may follow. "Billion" is two numbers.
_POWERS = {
    3: "thousand tausend tsd mille mila mil duizend tysi tys tisíc тысяч тыс тис tusen tuhat tuhan ezer bin",
    6: "million millón mio milion milhão milhões miljoen miljon miljoona millió milyon mln mn млн миллион мільйон",
    9: "billion milliard miliard mrd mld bn млрд миллиард мільярд miljard miljardi milyar",
    12: "trillion billón billion bilion bilião bilhão biljoen biljon trilyon трлн триллион",
}
_SIGNS = {"千": 3, "천": 3, "万": 4, "萬": 4, "만": 4, "百万": 6, "백만": 6, "ล้าน": 6, "亿": 8, "億": 8, "억": 8}
_SIGNS |= {"십억": 9, "十亿": 9, "兆": 12, "조": 12, "พัน": 3, "หมื่น": 4, "แสน": 5}
_POWER_OF = {word: power for power, words in _POWERS.items() for word in words.split()} | _SIGNS
_WORDS, _BEHIND = (
    "|".join(sorted(names, key=len, reverse=True)) for names in (" ".join(_POWERS.values()).split(), _SIGNS)
)
_LARGE = regex.compile(
    rf"(\d+(?:[.,]\d{{1,3}})?)[\s-]?(?:({_WORDS})\p{{L}}{{0,4}}(?!\p{{L}})|({_BEHIND}))", regex.IGNORECASE
)
_YEARS = regex.compile(r"(?<!\d)((?:1\d|20)\d\d)([-‐‑–/])(\d{1,2})(?!\d)")
_ADDRESS = regex.compile(r"(?:https?://|www\.)[^\s<>\"»“”]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_TAG = regex.compile(r"</?\p{Latin}[^<>]*>|&#?\w+;|\$?\{[^{}]*\}|%(?:\(\w+\))?[sdif]\b")
_BRACKET = regex.compile(r"[()\[\]{}<>]")
_SIGN = regex.compile(r"[^\s\p{L}\p{M}\p{N}\p{Pd}\p{Pi}\p{Pf}.,!?;:'\"„‚()\p{Zs}。、！？।۔؟،]")
_SAME_LETTERS = regex.compile(r"([^\s.…\-_\d])\1{4,}")


def script_pattern(language: str) -> regex.Pattern[str]:
    """Returns the pattern of a letter in the usual script of a language, by Unicode's Likely Subtags."""
    script = langcodes.Language.get(language).maximize().script or "Latn"
    names = SEVERAL.get(script, (script,))
    return regex.compile("[" + "".join(rf"\p{{Script={name}}}" for name in names) + "]")


def in_other_script(text: str, own: regex.Pattern[str]) -> bool:
    """Returns True if less than half of the letters are in the language's own script."""
    letters = _LETTER.findall(text)
    return sum(own.match(letter) is not None for letter in letters) < OWN_SCRIPT * len(letters)


def untranslated(source: str, target: str) -> bool:
    """Returns True if the sides are nearly the same text of three words or more."""
    from rapidfuzz import fuzz, utils

    if min(source.count(" "), target.count(" ")) < 2:
        return False
    return bool(fuzz.ratio(source, target, processor=utils.default_process, score_cutoff=ALIKE))


def numbers_differ(source: str, target: str) -> bool:
    """Returns True if each side has a number that the other lacks.

    A number written as a word on one side passes, and so do 22:00 for 10 p.m., 1,000 for 1.000, 1 500 000 for 1.5
    million, and 1990-91 or 1998-9 for 1990-1991 and 1998-1999.
    """
    if not _differ(source, target):
        return False
    sides = [
        {_written_out(form, billion) for billion in (9, 12) for form in (text, _THOUSANDS.sub("", text))}
        for text in (source, target)
    ]
    return all(_differ(left, right) for left in sides[0] for right in sides[1])


def _differ(source: str, target: str) -> bool:
    left, right = numbers_in(source), numbers_in(target)
    left, right = left - right, right - left
    for number in list(left):
        for shift in (12, -12):
            if right[number + shift] and 0 <= min(number, number + shift) <= 12:
                left[number] -= 1
                right[number + shift] -= 1
                break
    return bool(+left) and bool(+right)


def numbers_in(text: str) -> Counter[int]:
    """Returns the numbers that a text writes in digits, without the marks between thousands."""
    return Counter(map(int, _DIGITS.findall(_THOUSANDS.sub("", text))))


def _written_out(text: str, billion: int) -> str:
    """Returns the text with its large numbers and spans of years in full; `billion`: the power of ten of that word."""

    def large(match: regex.Match[str]) -> str:
        word = (match[2] or match[3]).lower()
        power = billion if word == "billion" else _POWER_OF[word]
        whole, _, part = match[1].replace(",", ".").partition(".")
        return f"{whole}{part.ljust(power, '0')}" if whole != "0" else part.ljust(power, "0")

    def years(match: regex.Match[str]) -> str:
        first, dash, last = match.groups()
        period = 10 ** len(last)
        year = int(first) // period * period + int(last)
        return f"{first}{dash}{year + period * (year <= int(first))}"

    written: str = _YEARS.sub(years, _LARGE.sub(large, text))
    return written


def addresses_differ(source: str, target: str) -> bool:
    """Returns True if one side has a web or mail address that the other lacks."""
    left, right = ({address.rstrip(".,;:!?)") for address in _ADDRESS.findall(text)} for text in (source, target))
    return left != right


def markup_differs(source: str, target: str) -> bool:
    """Returns True if one side has a tag, an entity, a placeholder or a bracket that the other lacks."""
    return any(Counter(pattern.findall(source)) != Counter(pattern.findall(target)) for pattern in (_TAG, _BRACKET))


def repeats(source: str, target: str) -> bool:
    """Returns True if one side repeats a word, a phrase or a letter again and again, and the other does not."""
    counts = most_repeats(source), most_repeats(target)
    letters = [bool(_SAME_LETTERS.search(text)) for text in (source, target)]
    return letters[0] != letters[1] or (max(counts) >= OFTEN and counts[0] != counts[1])


def is_garbage(text: str) -> bool:
    """Returns True if a tenth of the text or more is signs that ordinary sentences lack."""
    signs = len(_SIGN.findall(text))
    return signs >= LEAST_SIGNS and signs > MOST_SIGNS * len(text)


def text_rules(languages: Sequence[str]) -> dict[str, Callable[[str, str], bool]]:
    """Returns rule -> its judgement of (source, target): True if the pair fails."""
    own = [script_pattern(language) for language in languages]
    return {
        "script": lambda source, target: in_other_script(source, own[0]) or in_other_script(target, own[1]),
        "garbage": lambda source, target: is_garbage(source) != is_garbage(target),
        "repeated": repeats,
        "untranslated": untranslated,
        "addresses": addresses_differ,
        "markup": markup_differs,
        "numbers": numbers_differ,
    }
