"""What two sides of a pair have in common, as the checks of translations compare them."""

from collections import Counter

import regex

ALIKE = 97.0  # percent: sides that are as similar are no translations of each other
_THOUSANDS = regex.compile(r"(?<=\d)[.,'’\s](?=\d{3}(?!\d))")
_DIGITS = regex.compile(r"\d+")


def untranslated(source: str, target: str) -> bool:
    """Returns True if the sides are nearly the same text of three words or more."""
    from rapidfuzz import fuzz, utils

    if min(source.count(" "), target.count(" ")) < 2:
        return False
    return bool(fuzz.ratio(source, target, processor=utils.default_process, score_cutoff=ALIKE))


def numbers_in(text: str) -> Counter[int]:
    """Returns the numbers that a text writes in digits, without the marks between thousands."""
    return Counter(map(int, _DIGITS.findall(_THOUSANDS.sub("", text))))
