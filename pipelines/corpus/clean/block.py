"""The file of a clean block: its pairs or records with their hashes, and what cleaning changed and dropped."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dragoman.model.files import atomic_open
from dragoman.model.text.text_keys import Keys, sentence_keys

SIDES = ("source", "target")


def save_block(
    path: Path,
    sides: Sequence[str],
    source_key: Keys,
    pair_key: Keys,
    facts: Mapping[str, Any],
    leak_keys: Sequence[Keys] = (),
) -> None:
    """Writes the n clean pairs of a block, or the records of a text block, in order.

    Args:
        sides: both sides or the text, lines joined by line feeds.
        source_key: (n,) hash of the case-folded source sentence; 0: may be in any split.
        pair_key: (n,) hash of both sides.
        facts: what cleaning dropped and changed, by rule.
        leak_keys: four of (n,), see `load_leak_keys`.
    """
    arrays: dict[str, Any] = {name: _bytes(side) for name, side in zip(SIDES, sides, strict=False)}
    arrays |= {"source_key": source_key, "pair_key": pair_key, "facts": _bytes(json.dumps(facts))}
    if leak_keys:
        arrays["leak_keys"] = np.stack(leak_keys)
    with atomic_open(path, durable=False) as file:
        np.savez(file, **arrays)


def block_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.npz"


def load_texts(folder: Path, number: int, sides: Sequence[str] = SIDES) -> list[list[str]]:
    """Returns the lines of the block's pairs, of those of `sides` that it has; a text is a source alone."""
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        count = len(arrays["source_key"])
        return [arrays[side].tobytes().decode().split("\n") if count else [] for side in sides if side in arrays]


def load_facts(folder: Path, number: int) -> dict[str, Any]:
    """Returns what cleaning dropped and changed, by rule; of texts also the numbers of records and characters."""
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        return cast(dict[str, Any], json.loads(arrays["facts"].tobytes()))


def load_keys(folder: Path, number: int) -> tuple[Keys, Keys]:
    """Returns (n,) source keys and (n,) pair keys, without the text."""
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        return arrays["source_key"], arrays["pair_key"]


def load_leak_keys(folder: Path, number: int) -> Keys:
    """Loads (4, n) hashes: source and target case-folded, then both as near-copies share them."""
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        return cast(Keys, arrays["leak_keys"])


def load_near_keys(folder: Path, number: int, sides: int) -> Keys:
    """Returns (sides, n) hashes that near-copies share: the stored ones, else of the text."""
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        if "leak_keys" in arrays:
            stored: Keys = arrays["leak_keys"][2:]
            return stored[:sides]
    return np.stack([sentence_keys(lines) for lines in load_texts(folder, number, SIDES[:sides])])


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)
