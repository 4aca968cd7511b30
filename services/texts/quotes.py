"""Quotes and brackets in a sentence: which of them a translation has lost."""

from collections import Counter
from collections.abc import Iterable, Sequence

from dragoman.services.texts.runs import Mask, Span

QUOTES = '"“”„«»「」『』'  # of all languages: a translation may have those of its own
BRACKETS = "()[]（）"
_WIDE = str.maketrans("（）", "()")


def find_lost(text: str, span: Span, masks: Sequence[Mask], translation: str) -> list[int]:
    """Returns the places of the quotes, or of the brackets, in a part of a run, if its translation has fewer."""
    start, end = span
    places = [
        place
        for place in range(start, end)
        if text[place] in QUOTES + BRACKETS and not any(mask.start <= place < mask.end for mask in masks)
    ]
    wanted, found = _count(text[place] for place in places), _count(translation)
    lost = {kind for kind, times in wanted.items() if found[kind] < times}
    return [place for place in places if _kind(text[place]) in lost]


def _count(signs: Iterable[str]) -> Counter[str]:
    return Counter(_kind(sign) for sign in signs if sign in QUOTES + BRACKETS)


def _kind(sign: str) -> str:
    """Returns what a sign counts as: all quotes are one kind, a bracket is its own."""
    return '"' if sign in QUOTES else sign.translate(_WIDE)
