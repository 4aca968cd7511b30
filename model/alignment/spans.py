"""Where the words of a text stand, and how much of each token belongs to which word.

Letters: N tokens, U words.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from model.text.tokenizer import UNK, Tokenizer

Span = tuple[int, int]  # begin and end, in characters
WordSpans = Callable[[str], list[Span]]  # where the words of a text stand, in order

JOINERS = frozenset("-'’")  # between letters they belong to the word
SPACE = "▁"  # U+2581 stands for a space inside of subwords
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
SINGLE = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")  # kana and Chinese characters: each is a word


def word_spans(text: str) -> list[Span]:
    """The words that a reader sees: letters and digits with their accents; every other mark is a word by itself.

    A hyphen or an apostrophe inside of a word belongs to it ("don't"), and so do a full stop and a comma between
    digits. Scripts that write no spaces come by characters where they are Chinese or Japanese, else by the run.
    """
    spans: list[Span] = []
    for place, sign in enumerate(text):
        if sign.isspace():
            continue
        if spans and spans[-1][1] == place and _continues(text, place):
            spans[-1] = (spans[-1][0], place + 1)
        else:
            spans.append((place, place + 1))
    return spans


def surfaces(tokenizer: Tokenizer, ids: Sequence[int] | NDArray[np.integer]) -> list[str | None]:
    """How each token is written in a text, without blanks at its ends; None where that cannot be said.

    It cannot of unknown tokens, and of the bytes that a subword model falls back to.
    """
    subwords = tokenizer.type in ("bpe", "unigram")
    found: list[str | None] = []
    for number, piece in zip(ids, tokenizer.pieces(ids), strict=True):
        if number == UNK or (subwords and BYTE.fullmatch(piece)):
            found.append(None)
        else:
            found.append((piece.replace(SPACE, " ") if subwords else piece).strip())
    return found


def token_spans(written: Sequence[str | None], text: str) -> list[Span]:
    """Where each token stands in the text it was made from, or that was made from it; see `surfaces`.

    Tokens are looked for one after the other. Those that cannot be found share what stands between their neighbours:
    a word each where there are as many words, else all of it. A token of blanks is empty, and stands where the next
    token begins.
    """
    folded = _caseless(text)  # the tokenizer may have lower-cased, by the rules of any language
    spans: list[Span | None] = [None] * len(written)
    cursor, waiting = 0, list[int]()
    for number, surface in enumerate(written):
        if not surface:
            waiting.append(number)
            continue
        unknown = sum(written[place] is None for place in waiting)
        begin = folded.find(_caseless(surface), cursor + unknown)
        if begin < 0:  # written otherwise than it reads: like an unknown one
            waiting.append(number)
            continue
        _share(spans, written, waiting, text, (cursor, begin))
        cursor, waiting = begin + len(surface), []
        spans[number] = (begin, cursor)
    _share(spans, written, waiting, text, (cursor, len(text)))
    following = len(text)
    placed: list[Span] = []
    for span in reversed(spans):
        placed.append((following, following) if span is None else span)
        following = placed[-1][0]
    return placed[::-1]


def shares(spans: Sequence[Span], words: Sequence[Span]) -> NDArray[np.float32]:
    """(N, U): the part of each token's characters that belongs to each word; rows sum to 1 where there are words.

    A token that touches no word belongs to the one after it, as a blank does; behind the last word, to that.
    """
    found = np.zeros((len(spans), len(words)), np.float32)
    for row, (begin, end) in zip(found, spans, strict=True):
        for column, (first, last) in enumerate(words):
            row[column] = max(0, min(end, last) - max(begin, first))
        if not row.any() and len(words):
            row[next((column for column, (_, last) in enumerate(words) if last > begin), len(words) - 1)] = 1.0
    found /= np.maximum(found.sum(1, keepdims=True), 1e-9)
    return found


def merge_tokens(
    weights: NDArray[np.float32], source: NDArray[np.float32], target: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Weights of tokens (..., T, S) as weights of words (..., W, U); `source` (S, U) and `target` (T, W) are shares.

    A source word gets the sum of its tokens, a target word the mean of its tokens: rows that sum to 1 still do. A
    target word that has no token has a row of zeros.
    """
    rows = target / np.maximum(target.sum(0), 1e-9)  # (T, W), columns sum to 1
    found: NDArray[np.float32] = rows.T @ weights @ source
    return found


def _caseless(text: str) -> str:
    """Return a text as long as `text` in which letters of any case are alike: I, İ and ı; Σ, σ and ς."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(letter.lower()[0] for letter in text)
    return lower.replace("ı", "i").replace("ς", "σ")


def _share(
    spans: list[Span | None], written: Sequence[str | None], waiting: Sequence[int], text: str, region: Span
) -> None:
    """Give the tokens `waiting` their spans in the region; those of blanks are left to `token_spans`."""
    groups: list[list[int]] = []  # tokens that could not be found, blanks between them
    apart = True
    for number in waiting:
        if written[number] == "":
            apart = True
            continue
        if apart:
            groups.append([])
        groups[-1].append(number)
        apart = False
    if not groups:
        return
    first, last = region
    every = [number for group in groups for number in group]
    stretches = [(first + found.start(), first + found.end()) for found in re.finditer(r"\S+", text[first:last])]
    words = [(first + begin, first + end) for begin, end in word_spans(text[first:last])]
    if len(stretches) == len(groups) and len(words) != len(every):
        parts = [(number, span) for group, span in zip(groups, stretches, strict=True) for number in group]
    elif len(every) <= len(words):
        parts = list(zip(every, words, strict=False))
    else:
        parts = [(number, region) for number in every]
    for number, span in parts:
        spans[number] = span


def _continues(text: str, place: int) -> bool:
    """Whether the sign at `place` belongs to the word that the sign before it belongs to."""
    before, sign, after = text[place - 1], text[place], text[place + 1 : place + 2]
    kind = unicodedata.category(sign)
    if kind[0] == "M" or kind == "Cf":  # accents, selectors and joiners go with what they stand on
        return True
    if SINGLE.match(sign) or SINGLE.match(before):
        return False
    if _letter(sign):
        return _letter(before) or (place > 1 and _inner(text[place - 2], before, sign))
    return bool(after) and _inner(before, sign, after)


def _inner(before: str, sign: str, after: str) -> bool:
    """Whether a mark between these two signs belongs to their word."""
    if sign in JOINERS:
        return _letter(before) and _letter(after)
    return sign in ".," and before.isdigit() and after.isdigit()


def _letter(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LMN" or sign == "_"
