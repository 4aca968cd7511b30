"""Hashes by which sentences are held against each other: word for word, or without case, punctuation and numbers."""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]

_DROPPED, _LETTER, _DIGIT = range(3)
_CLASSIFIED = 0x20000  # code points; above are ideographs, and tags that normalisation has taken out


def text_keys(texts: Iterable[str]) -> Keys:
    """(n,) 64-bit BLAKE2b of each text: two of 10^8 sentences meet by chance with a probability of 1 in 4,000."""
    digest = hashlib.blake2b
    joined = b"".join([digest(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(joined, "<u8").astype(np.uint64)


def near_keys(folded: Sequence[str]) -> Keys:
    """(n,) hashes that near-copies share; 0 for a text without letters, which is a near-copy of nothing."""
    texts = near_texts(folded)
    found = text_keys(texts)
    found[np.fromiter((text.strip("0") == "" for text in texts), bool, len(texts))] = 0
    return found


def near_texts(folded: Sequence[str]) -> list[str]:
    """Case-folded lines with letters and their accents alone: blanks, punctuation, symbols out, a run of digits as 0.

    "Tom's 2 dogs bark!" and "toms 12 dogs bark" are one, and so are a text and its tokenised form.
    """
    if not folded:
        return []
    points = np.frombuffer("\n".join(folded).encode("utf-32-le"), "<u4").copy()
    classes = _classes()[np.minimum(points, _CLASSIFIED)]
    points[classes == _DIGIT] = ord("0")
    points, classes = points[classes != _DROPPED], classes[classes != _DROPPED]
    digit = classes == _DIGIT
    digit[1:] &= digit[:-1]
    if len(digit):
        digit[0] = False
    text: str = points[~digit].tobytes().decode("utf-32-le")
    return text.split("\n")


@lru_cache
def _classes() -> npt.NDArray[np.uint8]:
    """What becomes of each code point, by Unicode's general category; a line feed stays as it is."""
    by_category = {"N": _DIGIT, "P": _DROPPED, "S": _DROPPED, "Z": _DROPPED, "C": _DROPPED}
    categories = (unicodedata.category(chr(point))[0] for point in range(_CLASSIFIED))
    found = np.fromiter((by_category.get(category, _LETTER) for category in categories), np.uint8, _CLASSIFIED)
    found[ord("\n")] = _LETTER
    return np.append(found, np.uint8(_LETTER))
