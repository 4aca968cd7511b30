"""The file of hashes of the texts that shards, a run or a bundle learned from: which sentences are among them?

Sources and targets alike, by `text_keys.sentence_keys`: 64 bits each, sorted and once each, as an array of numpy that
is mapped into memory.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open
from dragoman.model.text.text_keys import Keys, contains, sentence_keys


def write_hashes(path: Path, parts: Iterable[Keys]) -> None:
    """Writes the hashes of all parts, in any order; 0, of texts without letters, is left out."""
    keys = np.concatenate([np.empty(0, np.uint64), *parts])
    keys.sort()
    first = np.append(keys[:1] != 0, keys[1:] != keys[:-1])
    with atomic_open(path, durable=False) as file:
        np.save(file, keys[first].astype("<u8", copy=False))


def read_hashes(path: Path) -> Keys:
    """Returns (n,) hashes, mapped into memory."""
    try:
        keys = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        raise UserError(f"{path}: no hashes of training texts ({problem}); make the bundle again") from None
    if keys.dtype != np.dtype("<u8") or keys.ndim != 1:
        raise UserError(f"{path}: no hashes of training texts ({keys.dtype}, {keys.shape}); make the bundle again")
    hashes: Keys = keys
    return hashes


def seen(path: Path, sides: Sequence[Sequence[str]]) -> npt.NDArray[np.bool_]:
    """Returns (n,): True for lines of which any side is among the texts of a file."""
    known, hits = read_hashes(path), np.zeros(len(sides[0]), bool)
    for side in sides:
        hits |= contains(known, sentence_keys(side))
    return hits
