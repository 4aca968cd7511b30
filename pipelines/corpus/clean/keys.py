"""Hashes that compare sentences and assign them to splits: the same forever, on every machine."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]


def text_keys(texts: Iterable[str]) -> Keys:
    """Returns (n,) 64-bit BLAKE2b of each text: a collision among 10^8 sentences has probability 1 in 4,000."""
    digest = hashlib.blake2b
    joined = b"".join([digest(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(joined, "<u8").astype(np.uint64)
