"""The cleaning task: one block of lines in, one file of clean pairs with their hashes out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dragoman.model.files import atomic_open
from dragoman.model.text.text_keys import folded_keys, pair_keys, sentence_keys
from dragoman.pipelines.corpus.clean.cleaning import clean
from dragoman.pipelines.corpus.clean.keys import Keys, text_keys
from dragoman.pipelines.corpus.read.records import read_records
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.settings import CleanConfig, OnError

SIDES = ("source", "target")


@dataclass(frozen=True)
class CleaningTask:
    """The inputs of cleaning one block."""

    block: Block
    clean: CleanConfig
    on_error: OnError
    folder: Path  # of clean blocks
    encodings: tuple[str, ...] = ("utf-8",)
    near: bool = True  # True: hash both sides for the leak guard; False: only the source


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


def clean_block(task: CleaningTask) -> int:
    """Cleans one block unless that was done before; returns the block's number."""
    path = block_path(task.folder, task.block.number)
    if path.exists():
        return task.block.number
    records = read_records(task.block, task.on_error, task.encodings)
    held_out = task.block.source.split != "train"
    cleaned = clean(records.source, records.target, records.bad, task.clean, held_out)
    line = np.flatnonzero(cleaned.kept).astype(np.int32)
    places = line.tolist()
    source, target = ("\n".join(map(side.__getitem__, places)) for side in (cleaned.source, cleaned.target))
    facts = {
        "lines": task.block.lines,
        "dropped": dict(sorted(cleaned.dropped.items())),
        "changed": dict(sorted((cleaned.changed + records.counts).items())),
        "examples": {
            rule: [(row, cleaned.source[row], cleaned.target[row]) for row in rows]
            for rule, rows in cleaned.examples.items()
        },
    }
    folded = source.casefold()
    source_key = text_keys(folded.split("\n")[: len(line)])  # no lines have no keys
    both = zip(folded_keys(folded), folded_keys(target.casefold()), strict=True) if task.near else ()
    leak = [key[: len(line)] for sides in both for key in sides]
    pair_key = pair_keys(source.encode(), target.encode())[: len(line)]
    save_block(path, [source, target], line, source_key, pair_key, facts, leak)
    return task.block.number


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
        keys: Keys = arrays["leak_keys"]
        return keys


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
