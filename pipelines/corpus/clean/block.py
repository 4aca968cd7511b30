"""The file of a clean block: its pairs or records with their hashes, and what cleaning changed and dropped."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dragoman.model.files import atomic_open
from dragoman.model.text.text_keys import Keys, sentence_keys

SIDES = ("source", "target")


@dataclass
class CleanBlock:
    """The pairs of a block that passed the rules, or the records of a text block, in order."""

    source: npt.NDArray[np.uint8]  # UTF-8, lines joined by line feeds
    target: npt.NDArray[np.uint8] | None  # None: text of one language
    line: npt.NDArray[np.int32]  # (n,) line within the block
    source_key: Keys  # (n,) hash of the case-folded source sentence; 0: may be in any split
    pair_key: Keys  # (n,) hash of both sides

    def texts(self) -> tuple[list[str], ...]:
        """Returns each side as a list of lines: two sides, or one for text."""
        sides = [self.source] if self.target is None else [self.source, self.target]
        return tuple(_lines(side, len(self.line)) for side in sides)


def save_block(
    path: Path,
    sides: Sequence[str],
    line: npt.NDArray[np.int32],
    source_key: Keys,
    pair_key: Keys,
    facts: Mapping[str, Any],
    leak_keys: Sequence[Keys] = (),
) -> None:
    """Writes a clean block: its one or two sides, lines joined by line feeds, and its keys and facts.

    `CleanBlock`, `load_facts` and `load_leak_keys` return them."""
    arrays: dict[str, Any] = {name: _bytes(side) for name, side in zip(SIDES, sides, strict=False)}
    arrays |= {"line": line, "source_key": source_key, "pair_key": pair_key, "facts": _bytes(json.dumps(facts))}
    if leak_keys:
        arrays["leak_keys"] = np.stack(leak_keys)
    with atomic_open(path, durable=False) as file:
        np.savez(file, **arrays)


def block_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.npz"


def load_block(folder: Path, number: int) -> CleanBlock:
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        target = arrays.get("target")
        return CleanBlock(arrays["source"], target, arrays["line"], arrays["source_key"], arrays["pair_key"])


def load_lines(folder: Path, number: int, side: int) -> list[str]:
    """Loads one side of a block's clean pairs without the other; 0: the source, or the only side."""
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        return _lines(arrays[SIDES[side]], len(arrays["line"]))


def load_facts(folder: Path, number: int) -> dict[str, Any]:
    """Returns the number of lines in the block, and the counts of drops and changes."""
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        return cast(dict[str, Any], json.loads(arrays["facts"].tobytes()))


def load_keys(folder: Path, number: int) -> tuple[npt.NDArray[np.int32], Keys, Keys]:
    """Loads line numbers, source keys and pair keys, without the text."""
    with np.load(block_path(folder, number), allow_pickle=False) as arrays:
        return arrays["line"], arrays["source_key"], arrays["pair_key"]


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
        texts = [_lines(arrays[side], len(arrays["line"])) for side in SIDES[:sides]]
    return np.stack([sentence_keys(lines) for lines in texts])


def _lines(side: npt.NDArray[np.uint8], count: int) -> list[str]:
    return side.tobytes().decode().split("\n") if count else []


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)
