"""Shards through the `webdataset` library, front to back: what any other tool that reads WebDataset sees.

The library opens `pipe:` addresses with a shell and decodes pickles. Neither can happen here: it is handed files that
are open already, only the members of our layout pass, and arrays are taken from their bytes.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError
from pipelines.shards.layout import NPY_HEADER, OFFSET_DTYPE, chunk_key, chunk_record, npy_header, side_members
from pipelines.shards.manifest import Manifest, ShardEntry, read_manifest
from pipelines.shards.reader import Chunk, check_rows


def stream_chunks(directory: Path, split: str) -> Iterator[Chunk]:
    """Every chunk of a split in order, each checked against the manifest.

    Raises:
        UserError: a shard is missing, cut off, or holds anything but what the manifest says.
    """
    manifest = read_manifest(directory)
    for entry in manifest.split(split).shards:
        path = directory / entry.name
        if path.parent != directory or not path.is_file():
            raise UserError(f"{path}: the manifest names this shard, but it is missing")
        first_id = entry.first_id
        samples = _samples(path, {name for pair in side_members(manifest.kind) for name in pair})
        for number, (_, records, *tokens) in enumerate(entry.chunks):
            sample = next(samples, None)
            if sample is None:
                raise UserError(f"{path}: cut off, {number} chunks instead of {len(entry.chunks)}; shard again")
            yield _chunk(path, manifest, entry, number, sample, first_id, records, tokens)
            first_id += records
        if next(samples, None) is not None:
            raise UserError(f"{path}: too long, more than {len(entry.chunks)} chunks; shard again")


def _samples(path: Path, extensions: set[str]) -> Iterator[dict[str, Any]]:
    """The library's samples {"__key__", extension: bytes} of one shard."""
    from webdataset.tariterators import group_by_keys, tar_file_expander

    def allowed(name: str) -> bool:
        extension = name.partition(".")[2]
        if extension not in extensions and extension != "json":
            raise UserError(f"{path}: {name} does not belong into a shard; the file was changed")
        return True

    with path.open("rb") as file:
        source = [{"url": str(path), "stream": file}]
        try:
            yield from group_by_keys(tar_file_expander(source, select_files=allowed))
        except (tarfile.TarError, EOFError, ValueError) as problem:
            raise UserError(f"{path}: cut off or damaged ({problem.args[0]}); shard again") from None


def _chunk(
    path: Path,
    manifest: Manifest,
    entry: ShardEntry,
    number: int,
    sample: dict[str, Any],
    first_id: int,
    records: int,
    tokens: list[int],
) -> Chunk:
    key = chunk_key(int(entry.name.rsplit("-", 1)[1].removesuffix(".tar")), number)
    where = f"{path}: {key}"
    if sample["__key__"] != key or sample.get("json") != chunk_record(first_id, records):
        raise UserError(f"{where}.json is not what the manifest says; the file was changed")
    dtype, vocabularies = np.dtype(manifest.dtype), manifest.vocabularies()
    sides: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for side, (name, offsets_name) in enumerate(side_members(manifest.kind)):
        ids = _array(where, sample, name, dtype, tokens[side])
        offsets = _array(where, sample, offsets_name, OFFSET_DTYPE, records + 1)
        check_rows(where, ids, offsets, vocabularies[side])
        sides.append((ids, offsets))
    if len(sides) == 1:
        sides.append((np.zeros(0, dtype), np.zeros(records + 1, OFFSET_DTYPE)))
    (source, source_offsets), (target, target_offsets) = sides
    return Chunk(first_id, source, source_offsets, target, target_offsets)


def _array(where: str, sample: dict[str, Any], name: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    data = sample.get(name, b"")
    if len(data) != NPY_HEADER + count * dtype.itemsize or not data.startswith(npy_header(dtype, count)):
        raise UserError(f"{where}.{name} is not what the manifest says; the file was changed")
    return np.frombuffer(data, dtype=dtype, offset=NPY_HEADER)
