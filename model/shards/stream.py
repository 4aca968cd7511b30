"""Reads shards through the `webdataset` library, front to back, as any other WebDataset tool does.

The library opens `pipe:` addresses with a shell and decodes pickles. Neither can happen here: it gets files that are
already open, only members of our layout pass, and arrays are built from their bytes.
"""

import io
import tarfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.layout import (
    END,
    NPY_HEADER,
    OFFSET_DTYPE,
    chunk_key,
    chunk_record,
    npy_header,
    side_members,
)
from dragoman.model.shards.manifest import Manifest, ShardEntry, read_manifest
from dragoman.model.shards.reader import Chunk, ShardReader, check_rows
from dragoman.model.shards.remote import checked_name
from dragoman.model.shards.samples import read_members
from dragoman.model.storage.remote import read_range

RANGES = 8  # chunks read ahead in parallel


def stream_chunks(directory: Path, split: str) -> Iterator[Chunk]:
    """Yields every chunk of a split in order, each checked against the manifest."""
    manifest = read_manifest(directory)
    extensions = {name for pair in side_members(manifest.kind) for name in pair}
    for entry in manifest.split(split).shards:
        path = directory / entry.name
        if path.parent != directory or not path.is_file():
            raise UserError(f"{path}: the manifest names this shard, but it is missing")
        first_id = entry.first_id
        with path.open("rb") as file:
            samples = _samples(path, file, extensions)
            for number, (_, records, *tokens) in enumerate(entry.chunks):
                sample = next(samples, None)
                if sample is None:
                    raise UserError(f"{path}: cut off, {number} chunks instead of {len(entry.chunks)}; shard again")
                yield _chunk(path, manifest, entry, number, sample, first_id, records, tokens)
                first_id += records
            if next(samples, None) is not None:
                raise UserError(f"{path}: too long, more than {len(entry.chunks)} chunks; shard again")


class StreamReader(ShardReader):
    """A split read chunk by chunk through the library, from the disk or by byte ranges of a remote file.

    Nothing is cached or mapped, so the shards may be larger than any local disk. The manifest gives the position of a
    chunk's members, which form an archive of their own. Chunks are checked as by `ShardReader`, but not a shard's
    sha256, which covers the whole file.
    """

    def __init__(self, directory: Path, split: str) -> None:
        super().__init__(directory, split)
        self._coming: dict[int, Future[bytes]] = {}

    def _check_size(self, entry: ShardEntry) -> None:
        if self._elsewhere is None:
            super()._check_size(entry)
        else:
            checked_name(self.directory, entry.name)

    def expect(self, chunks: Iterable[int]) -> None:
        """Starts reading these chunks in the background."""
        for index in chunks:
            if index not in self._coming:
                self._fetching = self._fetching or ThreadPoolExecutor(RANGES, "chunks")
                self._coming[index] = self._fetching.submit(self._bytes, index)

    def expect_all(self) -> None:
        """Does nothing: no shard is kept."""

    def chunk(self, index: int) -> Chunk:
        """Returns chunk `index`, 0 to `chunks` - 1. Raises as `ShardReader.chunk`, and AwayError."""
        number, within = self.places[index]
        entry = self.entries[number]
        _, records, *tokens = entry.chunks[within]
        coming = self._coming.pop(index, None)
        data = self._bytes(index) if coming is None else coming.result()
        path = self.directory / entry.name
        extensions = {name for pair in side_members(self.manifest.kind) for name in pair}
        sample = next(_samples(path, io.BytesIO(data + END), extensions), None)
        if sample is None:
            raise UserError(f"{path}: chunk {within} is not where the manifest says; the file was changed")
        return _chunk(path, self.manifest, entry, within, sample, self.first_ids[index], records, tokens)

    def _bytes(self, index: int) -> bytes:
        number, within = self.places[index]
        entry = self.entries[number]
        starts = [*(chunk[0] for chunk in entry.chunks), entry.bytes - len(END)]
        start, count = starts[within], starts[within + 1] - starts[within]
        if self._elsewhere is not None:
            return read_range(self._elsewhere.at(entry.name), start, count, self._elsewhere.patience)
        with (self.directory / entry.name).open("rb") as file:
            file.seek(start)
            return file.read(count)


def open_reader(directory: Path, split: str, reader: str) -> ShardReader:
    """Opens the split by `loader.reader`: mmap or stream. Both give the same chunks."""
    return StreamReader(directory, split) if reader == "stream" else ShardReader(directory, split)


def _samples(path: Path, file: BinaryIO, extensions: set[str]) -> Iterator[dict[str, Any]]:
    """Yields the library's samples {"__key__", extension: bytes} of a shard, or of some of its chunks."""

    def allowed(name: str) -> bool:
        extension = name.partition(".")[2]
        if extension not in extensions and extension != "json":
            raise UserError(f"{path}: {name} does not belong into a shard; the file was changed")
        return True

    try:
        yield from read_members(path, file, allowed)
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
    if sample["__key__"] != key or sample.get("json") != chunk_record(first_id, records, entry.part):
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
