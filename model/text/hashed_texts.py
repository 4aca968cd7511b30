"""Hashes of many texts in a file, and the questions to it: which of these sentences are among them?

Shards, runs and bundles have one (`TRAINING`) of the texts that they and the models behind them learned from: sources
and targets alike, by `text_keys.sentence_keys`. An opening of a held-out set has one of its lines. Above `EXACT` hashes
only the upper bits are kept: so many that one unseen text in 2^`SPARE` is taken for one of them.

The file is a line of JSON and blocks of differences, each a zlib stream of its byte planes, so that a question reads
one block at a time.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open
from dragoman.model.names import TRAINING
from dragoman.model.text.text_keys import sentence_keys

Keys = npt.NDArray[np.uint64]
FORMAT = 1
EXACT = 1 << 20  # hashes that are kept with 64 bits
SPARE = 12
BLOCK = 1 << 20  # hashes in a block
LEVEL = 1  # of zlib: the differences are random numbers below a bound, which no level makes smaller


@dataclass(frozen=True)
class HashedTexts:
    """The hashes, and the origins whose texts have none."""

    keys: Keys  # (n,) sorted and different; of `bits` bits
    bits: int = 64
    unknown: tuple[str, ...] = ()  # models and shards that it comes from and that know no texts

    @staticmethod
    def of(keys: Iterable[Keys], unknown: Iterable[str] = ()) -> "HashedTexts":
        """Takes hashes in any order; 0, of texts without letters, is left out."""
        distinct = _distinct(_joined(list(keys)))
        return HashedTexts(distinct[distinct[:1].tolist().count(0) :], 64, tuple(dict.fromkeys(unknown)))._shortened()

    def joined(self, *others: "HashedTexts") -> "HashedTexts":
        """Returns the texts of all."""
        if not others:
            return self
        every = (self, *others)
        bits = min(part.bits for part in every)
        keys = _distinct(_joined([part.keys >> np.uint64(part.bits - bits) for part in every]))
        unknown = tuple(dict.fromkeys(name for part in every for name in part.unknown))
        return HashedTexts(keys, bits, unknown)._shortened()

    def _shortened(self) -> "HashedTexts":
        """Returns the same texts with as many bits as their number needs, in the same memory."""
        bits = self.bits if len(self.keys) <= EXACT else min(self.bits, len(self.keys).bit_length() + SPARE)
        np.right_shift(self.keys, np.uint64(self.bits - bits), out=self.keys)
        return HashedTexts(self.keys if bits == self.bits else _distinct(self.keys), bits, self.unknown)

    def write(self, path: Path) -> None:
        """Writes the file atomically."""
        blocks = [self.keys[start : start + BLOCK] for start in range(0, len(self.keys), BLOCK)]
        packed = [_pack(block) for block in blocks]
        head = {
            "format": FORMAT,
            "bits": self.bits,
            "unknown": self.unknown,
            "blocks": [
                [int(block[0]), len(block), len(content)] for block, content in zip(blocks, packed, strict=True)
            ],
        }
        with atomic_open(path, durable=False) as file:
            file.write(json.dumps(head).encode() + b"\n")
            file.writelines(packed)


def read(path: Path) -> HashedTexts:
    """Reads all of a file. Raises UserError: it is not such a file."""
    head = _head(path)
    keys = [np.empty(0, np.uint64), *(block for _, block in _blocks(path, head))]
    return HashedTexts(np.concatenate(keys), int(head["bits"]), tuple(head["unknown"]))


def read_of(folder: Path, name: str) -> HashedTexts:
    """Returns the texts of a folder of shards, of a run or of a bundle; without the file `name` is unknown."""
    path = folder / TRAINING
    return read(path) if path.is_file() else HashedTexts.of((), [name])


def summary(path: Path) -> dict[str, Any]:
    """Returns the figures of a file as plain values: hashes, bits, and the origins whose texts it does not know."""
    head = _head(path)
    hashes = sum(int(size) for _, size, _ in head["blocks"])
    return {"hashes": hashes, "bits": int(head["bits"]), "unknown": list(head["unknown"])}


def find(path: Path, keys: Keys) -> npt.NDArray[np.bool_]:
    """Returns (n,): True for the hashes (64 bits, in any order) that a file has; one block is in memory at a time."""
    head = _head(path)
    shortened = keys >> np.uint64(64 - int(head["bits"]))
    hits = np.zeros(len(keys), bool)
    for last, block in _blocks(path, head):
        places = np.flatnonzero((shortened >= block[0]) & (shortened <= last))
        hits[places] |= (
            block[np.minimum(np.searchsorted(block, shortened[places]), len(block) - 1)] == shortened[places]
        )
    is_known: npt.NDArray[np.bool_] = hits & (keys != 0)
    return is_known


def _joined(parts: list[Keys]) -> Keys:
    """Returns all hashes; takes the parts out of the list, so that memory holds each once."""
    keys, end = np.empty(sum(map(len, parts)), np.uint64), 0
    for _ in range(len(parts)):
        part = parts.pop()
        keys[end : end + len(part)] = part
        end += len(part)
    return keys


def _distinct(keys: Keys) -> Keys:
    """Returns the hashes sorted and once each, at the beginning of their own memory; `np.unique` builds a table."""
    keys.sort()
    end = 0
    for start in range(0, len(keys), BLOCK):
        block = keys[start : start + BLOCK]
        new = block[np.concatenate([block[:1] != keys[end - 1 : end] if end else [True], block[1:] != block[:-1]])]
        keys[end : end + len(new)] = new
        end += len(new)
    return keys[:end]


def _head(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline(1 << 24))
        whole = head["format"] == FORMAT and 0 < int(head["bits"]) <= 64 and isinstance(head["unknown"], list)
        if not whole or not all(0 < int(size) <= BLOCK for _, size, _ in head["blocks"]):
            raise ValueError(f"format {head['format']!r}")
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{path}: no hashes of training texts ({problem!r}); make the bundle again") from None
    return dict(head)


def _blocks(path: Path, head: dict[str, Any]) -> Iterator[tuple[np.uint64, Keys]]:
    """Yields (last hash, hashes) of each block."""
    with path.open("rb") as file:
        file.readline(1 << 24)
        for first, size, stored in head["blocks"]:
            block = _unpack(file.read(int(stored)), int(first), int(size))
            if block is None:
                raise UserError(f"{path}: damaged; fetch or make the bundle again")
            yield block[-1], block


def _pack(keys: Keys) -> bytes:
    planes = np.diff(keys, prepend=keys[:1]).astype("<u8").view(np.uint8).reshape(-1, 8).T
    return zlib.compress(planes.tobytes(), LEVEL)


def _unpack(content: bytes, first: int, size: int) -> Keys | None:
    """Returns a block's hashes; None if it is damaged."""
    try:
        planes = zlib.decompressobj().decompress(content, 8 * size)
    except zlib.error:
        return None
    if len(planes) != 8 * size:
        return None
    steps = np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(8, size).T).view("<u8").reshape(-1)
    keys: Keys = np.cumsum(steps, dtype=np.uint64) + np.uint64(first)
    return keys


def seen(path: Path, sides: Sequence[Sequence[str]]) -> npt.NDArray[np.bool_]:
    """Returns (n,): True for lines of which any side is among the texts of a file."""
    hits = np.zeros(len(sides[0]), bool)
    for side in sides:
        hits |= find(path, sentence_keys(side))
    return hits
