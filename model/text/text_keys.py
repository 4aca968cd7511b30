"""Compiled hashes of normalised texts: they find equal pairs and near-copies, and name the texts a model learned from.

Loading numba takes a second, so import this where texts are hashed. Shards, bundles and openings keep hashes of
`sentence_keys`: a change needs a new `FORMAT` in `model/bundles/training_texts.py`. Hashes that decide a pair's split
use BLAKE2b (`corpus/clean/keys.py`).

A hash takes in symbol after symbol: times 2^64 over the golden ratio, then the upper half XORed onto the lower. Each
step is one-to-one, and two adjacent symbols never cancel.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Points = npt.NDArray[np.uint32]

_DROPPED, _LETTER, _DIGIT = range(3)
_CLASSIFIED = 0x20000  # code points; above are ideographs, and tags that normalisation has removed
_FEED, _ZERO = ord("\n"), ord("0")
_START, _GOLDEN = np.uint64(0x243F6A8885A308D3), np.uint64(0x9E3779B97F4A7C15)  # digits of pi, and 2^64 / 1.618...


def pair_keys(source: bytes, target: bytes) -> Keys:
    """Returns (n,) hashes of pairs; the sides are UTF-8, lines joined by line feeds."""
    first, second = (_line_keys(np.frombuffer(side, np.uint8), side.count(b"\n") + 1) for side in (source, target))
    return first * _GOLDEN + second


def folded_keys(folded: str) -> tuple[Keys, Keys]:
    """Returns (n,) hashes of case-folded lines, joined by line feeds, and (n,) hashes that near-copies share.

    Near-copies have the same letters and accents: blanks, punctuation and symbols are ignored, a run of digits is 0.
    "Tom's 2 dogs bark!" and "toms 12 dogs bark" are equal, and so are a text and its tokenised form. A text without
    letters has no near-copies and gets 0.
    """
    points = np.frombuffer(folded.encode("utf-32-le"), "<u4")
    count = folded.count("\n") + 1
    near_keys = np.empty(count, np.uint64)
    _hash_letters(points, _classes(), near_keys)
    return _line_keys(points, count), near_keys


def sentence_keys(texts: Iterable[str]) -> Keys:
    """Returns (n,) hashes of texts, the same for near-copies (`folded_keys`); 0 for a text without letters."""
    lines = [text.replace("\n", " ") for text in texts]
    return folded_keys("\n".join(lines).casefold())[1][: len(lines)]


def _line_keys(symbols: npt.NDArray[Any], count: int) -> Keys:
    keys = np.empty(count, np.uint64)
    _hash_lines(symbols, keys)
    return keys


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def _hash_lines(symbols: npt.NDArray[Any], keys: Keys) -> None:
    row, key = 0, _START
    for symbol in symbols:
        if symbol == _FEED:
            keys[row] = key
            row, key = row + 1, _START
        else:
            key = (key ^ np.uint64(symbol)) * _GOLDEN
            key ^= key >> np.uint64(32)
    keys[row] = key


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def _hash_letters(points: Points, classes: npt.NDArray[np.uint8], keys: Keys) -> None:
    row, key, letters, digit = 0, _START, False, False
    for point in points:
        if point == _FEED:
            keys[row] = key if letters else np.uint64(0)
            row, key, letters, digit = row + 1, _START, False, False
            continue
        kind = classes[min(point, _CLASSIFIED)]
        if kind == _DROPPED or (kind == _DIGIT and digit):
            continue
        digit = kind == _DIGIT
        letters |= not digit
        key = (key ^ np.uint64(_ZERO if digit else point)) * _GOLDEN
        key ^= key >> np.uint64(32)
    keys[row] = key if letters else np.uint64(0)


@lru_cache
def _classes() -> npt.NDArray[np.uint8]:
    """Returns the class of each code point, from Unicode's general category; the last covers all above."""
    by_category = {"N": _DIGIT, "P": _DROPPED, "S": _DROPPED, "Z": _DROPPED, "C": _DROPPED}
    categories = (unicodedata.category(chr(point))[0] for point in range(_CLASSIFIED))
    found = np.fromiter((by_category.get(category, _LETTER) for category in categories), np.uint8, _CLASSIFIED)
    return np.append(found, np.uint8(_LETTER))
