"""Reads shards through the page cache: views of the mapped file, without copies; needs only NumPy.

The manifest gives the position and size of each chunk. The reader builds the headers that must stand there and compares
them byte for byte, so a cut, changed or foreign file is refused before its numbers are used.
"""

import mmap
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.layout import (
    BLOCK,
    NPY_HEADER,
    OFFSET_DTYPE,
    checked_name,
    chunk_key,
    chunk_record,
    npy_header,
    padding,
    side_members,
    tar_header,
)
from dragoman.model.shards.manifest import Manifest, ShardEntry, read_manifest
from dragoman.model.storage.mirror import remote_of
from dragoman.model.text.tokenizer import EOS

FETCHERS = 4  # shards fetched ahead in parallel
MAPPED = 256  # most mapped shards of a folder: each takes a descriptor, and a process has 1,024


@dataclass
class Chunk:
    """n records; record i of a side is ids[offsets[i]:offsets[i + 1]], with EOS. The arrays are read-only."""

    first_id: int
    source: NDArray[Any]  # (source tokens,) <u2 or <u4
    source_offsets: NDArray[Any]  # (n + 1,) <u4
    target: NDArray[Any]  # (target tokens,); monolingual: empty
    target_offsets: NDArray[Any]  # (n + 1,); monolingual: zeros

    @property
    def records(self) -> int:
        return len(self.source_offsets) - 1

    def part(self, begin: int, end: int) -> "Chunk":
        """Returns the records `begin` to `end` - 1 as a chunk of their own, without copying the ids."""
        if (begin, end) == (0, self.records):
            return self
        sides = []
        for ids, offsets in ((self.source, self.source_offsets), (self.target, self.target_offsets)):
            own = offsets[begin : end + 1]
            sides += [ids[own[0] : own[-1]], own - own[0]]
        return Chunk(self.first_id + begin, *sides)

    def rows(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yields (source, target) of each record, with EOS."""
        for i in range(self.records):
            yield (
                self.source[self.source_offsets[i] : self.source_offsets[i + 1]],
                self.target[self.target_offsets[i] : self.target_offsets[i + 1]],
            )


class ShardReader:
    """One split of a shard directory, by chunk number."""

    def __init__(self, directory: Path, split: str) -> None:
        self.directory, self.split = Path(directory), split
        self.manifest: Manifest = read_manifest(self.directory)
        self.entries: list[ShardEntry] = self.manifest.split(split).shards
        self.records: int = self.manifest.split(split).records
        self.locations: list[tuple[int, int]] = []  # chunk -> (shard, chunk within it)
        self.first_ids: list[int] = []
        self._elsewhere = remote_of(self.directory)
        for number, entry in enumerate(self.entries):
            self._check_size(entry)
            first_id = entry.first_id
            for chunk, (_, records, _, _) in enumerate(entry.chunks):
                self.locations.append((number, chunk))
                self.first_ids.append(first_id)
                first_id += records
        self.chunks: int = len(self.locations)
        self._maps: dict[int, mmap.mmap] = {}  # least recently used first
        self._checked: dict[int, set[int]] = {}  # mapped shard -> its chunks whose rows were checked
        self._fetching: ThreadPoolExecutor | None = None
        self._expected: set[int] = set()
        self._dtype = np.dtype(self.manifest.dtype)

    def _check_size(self, entry: ShardEntry) -> None:
        path = checked_name(self.directory, entry.name)
        if self._elsewhere is not None:  # checked when it is fetched
            return
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise UserError(f"{path}: the manifest names this shard, but it is missing") from None
        if size != entry.bytes:
            word = "cut off" if size < entry.bytes else "too long"
            raise UserError(f"{path}: {word}, {size} bytes instead of {entry.bytes}; shard again")

    def chunk_sizes(self) -> NDArray[np.int64]:
        """Returns (chunks,) the records of each chunk."""
        return np.array([self.entries[number].chunks[chunk][1] for number, chunk in self.locations], np.int64)

    def chunk_parts(self) -> list[str]:
        """Returns the corpus of a mix that each chunk is of."""
        return [self.entries[number].part for number, _ in self.locations]

    def chunk(self, index: int) -> Chunk:
        """Returns chunk `index`, 0 to `chunks` - 1; compares headers each time, rows once while the shard is mapped."""
        number, within = self.locations[index]
        view = self._map(number)
        checked = self._checked.setdefault(number, set())  # after the map, which forgets replaced shards
        parsed = self._parse(index, view, 0, within not in checked)
        checked.add(within)
        return parsed

    def _parse(self, index: int, view: mmap.mmap | bytes, start: int, check: bool) -> Chunk:
        """Returns chunk `index` out of its shard's bytes from `start` on; `check`: compares the rows too."""
        number, within = self.locations[index]
        entry = self.entries[number]
        cursor = _Cursor(self.directory / entry.name, view, start, entry, within)
        cursor.json(chunk_record(self.first_ids[index], cursor.records, entry.part))
        sides = []
        vocabularies = self.manifest.vocabularies()
        for side, (name, offsets_name) in enumerate(side_members(self.manifest.kind)):
            ids = cursor.array(name, self._dtype, cursor.tokens[side])
            offsets = cursor.array(offsets_name, OFFSET_DTYPE, cursor.records + 1)
            if check:
                check_rows(f"{cursor.path}: {cursor.key}", ids, offsets, vocabularies[side])
            sides.append((ids, offsets))
        if len(sides) == 1:
            sides.append((np.zeros(0, self._dtype), np.zeros(cursor.records + 1, OFFSET_DTYPE)))
        (source, source_offsets), (target, target_offsets) = sides
        return Chunk(self.first_ids[index], source, source_offsets, target, target_offsets)

    def __iter__(self) -> Iterator[Chunk]:
        return map(self.chunk, range(self.chunks))

    def expect(self, chunks: Iterable[int]) -> None:
        """Starts fetching the shards of these chunks in the background, in this order, if they are remote."""
        if self._elsewhere is None:
            return
        numbers = dict.fromkeys(self.locations[index][0] for index in chunks)
        for number in numbers:
            if number not in self._maps and number not in self._expected:
                self._fetching = self._fetching or ThreadPoolExecutor(FETCHERS, "shards")
                self._expected.add(number)
                self._fetching.submit(self._fetch, number)  # a reader meets the same error again

    def expect_all(self) -> None:
        """Starts fetching all shards, so that nothing waits later."""
        self.expect(range(self.chunks))

    def _fetch(self, number: int) -> None:
        entry = self.entries[number]
        if self._elsewhere is not None:
            self._elsewhere.fetch(entry.name, entry.bytes, entry.sha256)

    def _map(self, number: int) -> mmap.mmap:
        """Returns the shard's map; at most MAPPED shards stay mapped."""
        entry, elsewhere = self.entries[number], self._elsewhere
        mapped = self._maps.pop(number, None)
        if mapped is None:
            self._checked.pop(number, None)
            path = self.directory / entry.name
            if elsewhere is not None:
                path = elsewhere.fetch(entry.name, entry.bytes, entry.sha256)
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._expected.discard(number)
        self._maps[number] = mapped
        while len(self._maps) > MAPPED:
            del self._maps[next(iter(self._maps))]  # a chunk in use keeps its own
        return mapped


class _Cursor:
    """Walks the members of one chunk, and compares each header with the expected one."""

    def __init__(self, path: Path, view: mmap.mmap | bytes, start: int, entry: ShardEntry, chunk: int) -> None:
        self.path, self.view = path, view
        position, self.records, *self.tokens = entry.chunks[chunk]
        self.position = position - start
        self.key = chunk_key(int(entry.name.rsplit("-", 1)[1].removesuffix(".tar")), chunk)

    def _expect(self, what: str, expected: bytes) -> None:
        actual = self.view[self.position : self.position + len(expected)]
        if actual != expected:
            raise UserError(f"{self.path}: {self.key}.{what} is not what the manifest says; the file was changed")
        self.position += len(expected)

    def json(self, content: bytes) -> None:
        self._expect("json", tar_header(f"{self.key}.json", len(content)) + content)
        self.position += padding(len(content))

    def array(self, name: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        size = NPY_HEADER + count * dtype.itemsize
        if self.position + BLOCK + size > len(self.view):
            raise UserError(f"{self.path}: {self.key}.{name} runs past the end of the file")
        self._expect(name, tar_header(f"{self.key}.{name}", size) + npy_header(dtype, count))
        values = np.frombuffer(self.view, dtype=dtype, count=count, offset=self.position)
        self.position += size - NPY_HEADER + padding(size)
        return values


def check_rows(where: str, ids: NDArray[Any], offsets: NDArray[Any], vocabulary: int) -> None:
    """Checks what headers cannot show: rows follow each other, end with EOS and hold ids of the vocabulary."""
    if offsets[0] != 0 or offsets[-1] != len(ids) or not (offsets[1:] > offsets[:-1]).all():
        raise UserError(f"{where}: its offsets do not rise from 0 to {len(ids)}; the file was changed")
    if ids.max(initial=0) >= vocabulary:
        raise UserError(f"{where}: id {ids.max()} is not in a vocabulary of {vocabulary}")
    if not (ids[offsets[1:] - 1] == EOS).all():
        raise UserError(f"{where}: a record does not end with the end-of-sentence id; the file was changed")
