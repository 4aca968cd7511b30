"""Positions of words and tokens in a text, and the share of each token that belongs to each word.

Letters: N tokens, U words.
"""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dragoman.model.text.tokenizer import SUBWORDS, UNK, Tokenizer
from dragoman.model.text.word_table import SPACE

Span = tuple[int, int]  # begin and end, in characters

JOINERS = frozenset("-'’")  # between two letters they are part of the word
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
SINGLE = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")  # kana and Chinese characters: each is a word


def word_spans(text: str) -> list[Span]:
    """Returns the words of a text: runs of letters and digits with their accents; every other mark is its own word.

    A hyphen or an apostrophe inside a word belongs to it ("don't"), and so does a full stop or a comma between digits.
    In scripts without spaces, each Chinese or Japanese character is a word; elsewhere each run of letters is one.
    """
    spans: list[Span] = []
    for position, sign in enumerate(text):
        if sign.isspace():
            continue
        if spans and spans[-1][1] == position and _continues_word(text, position):
            spans[-1] = (spans[-1][0], position + 1)
        else:
            spans.append((position, position + 1))
    return spans


def surfaces(tokenizer: Tokenizer, ids: Sequence[int] | NDArray[np.integer]) -> list[str | None]:
    """Returns the text of each token without blanks at its ends, or None where it is not known.

    It is not known for unknown tokens and for the bytes that a subword model falls back to.
    """
    subwords = tokenizer.type in SUBWORDS
    texts: list[str | None] = []
    for number, piece in zip(ids, tokenizer.pieces(ids), strict=True):
        if number == UNK or (subwords and BYTE.fullmatch(piece)):
            texts.append(None)
        else:
            texts.append((piece.replace(SPACE, " ") if subwords else piece).strip())
    return texts


def token_spans(written: Sequence[str | None], text: str) -> list[Span]:
    """Returns the position of each token in `text`; `written` comes from `surfaces`.

    Searches for one token after the other. Tokens that are not found share the text between their neighbours: one word
    each if there are as many words, else all of it. A token of blanks has an empty span at the start of the next
    token.
    """
    folded = _caseless(text)  # the tokenizer may lower-case, by the rules of any language
    spans: list[Span | None] = [None] * len(written)
    cursor, waiting = 0, list[int]()
    for number, surface in enumerate(written):
        if not surface:
            waiting.append(number)
            continue
        unknown = sum(written[position] is None for position in waiting)
        begin = folded.find(_caseless(surface), cursor + unknown)
        if begin < 0:  # the text spells it differently: treat it like an unknown token
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
    """Returns (N, U): the part of each token's characters in each word; rows sum to 1 if there are words.

    A token outside every word, such as a blank, belongs to the next word, or to the last one if there is no next.
    """
    (begins, ends), (firsts, lasts) = (np.array(pairs, np.int64).reshape(-1, 2).T for pairs in (spans, words))
    overlaps = np.minimum.outer(ends, lasts) - np.maximum.outer(begins, firsts)
    table: NDArray[np.float32] = np.maximum(overlaps, 0).astype(np.float32)
    if len(words):
        outside = np.flatnonzero(~table.any(1))
        table[outside, np.minimum(np.searchsorted(lasts, begins[outside], "right"), len(words) - 1)] = 1.0
    table /= np.maximum(table.sum(1, keepdims=True), 1e-9)
    return table


def merge_tokens(
    weights: NDArray[np.float32], source: NDArray[np.float32], target: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Turns token weights (..., T, S) into word weights (..., W, U) by the shares `source` (S, U) and `target` (T, W).

    A source word gets the sum of its tokens and a target word their mean, so rows that sum to 1 still do. A target word
    without a token gets a row of zeros.
    """
    rows = target / np.maximum(target.sum(0), 1e-9)  # (T, W), columns sum to 1
    merged: NDArray[np.float32] = rows.T @ weights @ source
    return merged


def _caseless(text: str) -> str:
    """Returns a text as long as `text` with all cases of a letter made equal: I, İ and ı; Σ, σ and ς."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(letter.lower()[0] for letter in text)
    return lower.replace("ı", "i").replace("ς", "σ")


def _share(
    spans: list[Span | None], written: Sequence[str | None], waiting: Sequence[int], text: str, region: Span
) -> None:
    """Gives the tokens `waiting`, which were not found, their spans in the region of `text` where they must be.

    In this order: the stretch of text between blanks that each group of tokens is; a word for each token; the whole
    region for all. `token_spans` places tokens of blanks.
    """
    groups: list[list[int]] = []  # tokens that were not found, split at blanks
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
    stretches = [(first + match.start(), first + match.end()) for match in re.finditer(r"\S+", text[first:last])]
    words = [(first + begin, first + end) for begin, end in word_spans(text[first:last])]
    if len(stretches) == len(groups) and len(words) != len(every):
        parts = [(number, span) for group, span in zip(groups, stretches, strict=True) for number in group]
    elif len(every) <= len(words):
        parts = list(zip(every, words, strict=False))
    else:
        parts = [(number, region) for number in every]
    for number, span in parts:
        spans[number] = span


def _continues_word(text: str, position: int) -> bool:
    """Returns True if the character at `position` belongs to the same word as the one before it."""
    before, sign, after = text[position - 1], text[position], text[position + 1 : position + 2]
    kind = unicodedata.category(sign)
    if kind[0] == "M" or kind == "Cf":  # accents, selectors and joiners belong to the character before them
        return True
    if SINGLE.match(sign) or SINGLE.match(before):
        return False
    if _is_letter(sign):
        return _is_letter(before) or (position > 1 and _joins_word(text[position - 2], before, sign))
    return bool(after) and _joins_word(before, sign, after)


def _joins_word(before: str, sign: str, after: str) -> bool:
    """Returns True if a mark between these two characters belongs to their word."""
    if sign in JOINERS:
        return _is_letter(before) and _is_letter(after)
    return sign in ".," and before.isdigit() and after.isdigit()


def _is_letter(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LMN" or sign == "_"
