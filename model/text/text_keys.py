"""Hashes of normalised texts: they find equal pairs and near-copies, and name the texts a model learned from.

Shards, runs and bundles keep hashes of `sentence_keys`: a change needs another name of their file (`TRAINING`). Hashes
that decide a pair's split use BLAKE2b, as `text_keys`.

The other hashes take in symbol after symbol: times 2^64 over the golden ratio, then the upper half XORed onto the
lower. Each step is one-to-one, and two adjacent symbols never cancel.
"""

import hashlib
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]

_DROPPED, _LETTER, _DIGIT = range(3)
_CLASSIFIED = 0x20000  # code points; above are ideographs, and tags that normalisation has removed
_FEED, _ZERO = ord("\n"), ord("0")
_START, _GOLDEN = np.uint64(0x243F6A8885A308D3), np.uint64(0x9E3779B97F4A7C15)  # digits of pi, and 2^64 / 1.618...


def text_keys(texts: Iterable[str]) -> Keys:
    """Returns (n,) 64-bit BLAKE2b of each text: a collision among 10^8 sentences has probability 1 in 4,000."""
    digest = hashlib.blake2b
    joined = b"".join([digest(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(joined, "<u8").astype(np.uint64)


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
    kinds = _classes()[np.minimum(points, _CLASSIFIED)]
    kept = (kinds != _DROPPED) | (points == _FEED)
    symbols, kinds = points[kept], kinds[kept]
    digits = kinds == _DIGIT
    symbols = np.where(digits, np.uint32(_ZERO), symbols)[~(digits & np.append(False, digits[:-1]))]
    lettered = np.zeros(count, bool)
    lettered[np.cumsum(points == _FEED)[kept][kinds == _LETTER]] = True
    return _line_keys(points, count), np.where(lettered, _line_keys(symbols, count), np.uint64(0))


def sentence_keys(texts: Iterable[str]) -> Keys:
    """Returns (n,) hashes of texts, the same for near-copies (`folded_keys`); 0 for a text without letters."""
    lines = [text.replace("\n", " ") for text in texts]
    return folded_keys("\n".join(lines).casefold())[1][: len(lines)]


def contains(ordered: Keys, keys: Keys) -> npt.NDArray[np.bool_]:
    """Returns (n,): True for keys that are in the sorted `ordered`."""
    if not len(ordered):
        return np.zeros(len(keys), bool)
    index = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: npt.NDArray[np.bool_] = ordered[index] == keys
    return found


def _line_keys(symbols: npt.NDArray[Any], count: int) -> Keys:
    """Returns the hash of each line; the lines are separated by line feeds."""
    ends = np.append(np.flatnonzero(symbols == _FEED), len(symbols))
    assert len(ends) == count
    starts = np.append(0, ends[:-1] + 1)
    order = np.argsort(starts - ends, kind="stable")  # the longest first
    rows = np.searchsorted((starts - ends)[order], -np.arange(np.max(ends - starts, initial=0)))
    places, hashes = starts[order], np.full(count, _START)
    for column, active in enumerate(rows):
        part = hashes[:active]
        part ^= symbols[places[:active] + column]
        part *= _GOLDEN
        part ^= part >> np.uint64(32)
    keys = np.empty(count, np.uint64)
    keys[order] = hashes
    return keys


@lru_cache
def _classes() -> npt.NDArray[np.uint8]:
    """Returns the class of each code point, from Unicode's general category; the last covers all above."""
    by_category = {"N": _DIGIT, "P": _DROPPED, "S": _DROPPED, "Z": _DROPPED, "C": _DROPPED}
    categories = (unicodedata.category(chr(point))[0] for point in range(_CLASSIFIED))
    classes = np.fromiter((by_category.get(category, _LETTER) for category in categories), np.uint8, _CLASSIFIED)
    return np.append(classes, np.uint8(_LETTER))
