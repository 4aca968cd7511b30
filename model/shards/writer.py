"""Writes records to one shard: chunk by chunk, hashed while writing; it gets its own name only when complete."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open, atomic_write, file_sha256
from dragoman.model.schema import build
from dragoman.model.shards.layout import (
    END,
    OFFSET_DTYPE,
    chunk_key,
    chunk_record,
    npy_header,
    padding,
    shard_name,
    side_members,
    sidecar_name,
    tar_header,
)
from dragoman.model.shards.manifest import LENGTH_BOUNDS, ShardEntry
from dragoman.model.text.tokenizer import EOS, canonical_json

Record: TypeAlias = tuple[NDArray[Any], NDArray[Any] | None]  # (source, target) without EOS; target None: monolingual


def write_shard(
    directory: Path,
    split: str,
    index: int,
    records: Iterable[Record],
    first_id: int,
    chunk_records: int,
    dtype: str,
    key: str = "",
    part: str = "",
) -> ShardEntry:
    """Writes shard `index` of `split` and its sidecar; adds EOS to every row. Holds one chunk in memory.

    Args:
        records: id arrays without EOS; either all with a target or all without.
        first_id: global id of the first record; the others follow.
        chunk_records: records per chunk; the last may be shorter.
        dtype: "<u2" or "<u4".
        key: the shard's inputs, for `finished_shard`.
        part: the corpus of a mix that the records come from.

    Raises ValueError: an id that does not fit `dtype`, or records of both kinds.
    """
    path = directory / shard_name(split, index)
    with atomic_open(path) as file:
        out = _HashedFile(file)
        entry = _write_chunks(out, index, iter(records), first_id, chunk_records, np.dtype(dtype), part)
        out.write(END)
    entry.name, entry.key = path.name, key
    entry.bytes, entry.sha256 = out.size, out.sha256.hexdigest()
    atomic_write(directory / sidecar_name(entry.name), canonical_json(asdict(entry)) + b"\n")
    return entry


def finished_shard(directory: Path, split: str, index: int, key: str = "", verify: bool = False) -> ShardEntry | None:
    """Returns the entry of a shard that was finished with the same `key`, or None if it must be written (again).

    `verify`: only if it has the recorded sha256 too, not only the size.
    """
    path = directory / shard_name(split, index)
    try:
        entry = build(ShardEntry, json.loads((directory / sidecar_name(path.name)).read_bytes()), path.name)
        whole = path.stat().st_size == entry.bytes
    except (FileNotFoundError, ValueError, UserError):
        return None
    same = whole and (entry.key, entry.name) == (key, path.name)
    return entry if same and not (verify and file_sha256(path) != entry.sha256) else None


class _HashedFile:
    """An output file, its size so far and its hash."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = 0
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> None:
        self.file.write(data)
        self.sha256.update(data)
        self.size += len(data)

    def member(self, name: str, *parts: bytes | memoryview) -> None:
        size = sum(map(len, parts))
        self.write(tar_header(name, size))
        for part in parts:
            self.write(part)
        self.write(bytes(padding(size)))


def _write_chunks(
    out: _HashedFile, index: int, records: Iterator[Record], first_id: int, size: int, dtype: np.dtype[Any], part: str
) -> ShardEntry:
    lengths = np.zeros((2, len(LENGTH_BOUNDS) + 1), dtype=np.int64)  # source, target
    chunks: list[list[int]] = []
    written = 0
    while chunk := list(islice(records, size)):
        key, start, tokens = chunk_key(index, len(chunks)), out.size, [0, 0]
        out.member(f"{key}.json", chunk_record(first_id + written, len(chunk), part))
        targets = [target for _, target in chunk if target is not None]
        if len(targets) not in (0, len(chunk)) or (chunks and bool(targets) != bool(chunks[-1][3])):
            raise ValueError(f"{key}: records with and without a target in one shard")
        sides = [[source for source, _ in chunk], targets] if targets else [[source for source, _ in chunk]]
        members = side_members("parallel" if targets else "monolingual")
        for side, (rows, (name, offsets_name)) in enumerate(zip(sides, members, strict=True)):
            packed, offsets = pack(rows, dtype)
            out.member(f"{key}.{name}", npy_header(dtype, len(packed)), packed.data.cast("B"))
            out.member(f"{key}.{offsets_name}", npy_header(OFFSET_DTYPE, len(offsets)), offsets.data.cast("B"))
            buckets = np.searchsorted(LENGTH_BOUNDS, np.diff(offsets.astype(np.int64)))
            lengths[side] += np.bincount(buckets, minlength=len(LENGTH_BOUNDS) + 1)
            tokens[side] = len(packed)
        chunks.append([start, len(chunk), *tokens])
        written += len(chunk)
    return ShardEntry(
        name="",
        bytes=0,
        sha256="",
        first_id=first_id,
        records=written,
        source_tokens=sum(chunk[2] for chunk in chunks),
        target_tokens=sum(chunk[3] for chunk in chunks),
        chunks=chunks,
        source_lengths=lengths[0].tolist(),
        target_lengths=lengths[1].tolist(),
        part=part,
    )


def pack(rows: list[NDArray[Any]], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the rows, each with EOS added, in one array, and their n + 1 boundaries."""
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) + 1, out=offsets[1:])
    if offsets[-1] > np.iinfo(OFFSET_DTYPE).max:
        raise ValueError(f"{offsets[-1]} tokens in one chunk are more than its offsets can count")
    joined = np.concatenate(rows)
    if len(joined) and (joined.min() < 0 or joined.max() > np.iinfo(dtype).max):
        raise ValueError(f"ids from {joined.min()} to {joined.max()} do not fit {dtype.str}")
    packed = np.full(int(offsets[-1]), EOS, dtype)
    inside = np.ones(len(packed), bool)
    inside[offsets[1:] - 1] = False
    packed[inside] = joined
    return packed, offsets.astype(OFFSET_DTYPE)
