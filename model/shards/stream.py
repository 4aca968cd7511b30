"""Reads shards chunk by chunk, from the disk or by byte ranges of a remote file, and keeps none of them."""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dragoman.model.shards.layout import END, checked_name
from dragoman.model.shards.manifest import ShardEntry
from dragoman.model.shards.reader import Chunk, ShardReader
from dragoman.model.storage.remote import read_range

RANGES = 8  # chunks read ahead in parallel


class StreamReader(ShardReader):
    """A split whose shards may be larger than any local disk.

    The manifest gives the position of a chunk's members. Chunks are checked as by `ShardReader`, but not a shard's
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
        """Returns chunk `index`, 0 to `chunks` - 1."""
        coming = self._coming.pop(index, None)
        data = self._bytes(index) if coming is None else coming.result()
        return self._parse(index, data, self._range(index).start, check=True)

    def _range(self, index: int) -> range:
        """Returns the bytes of a chunk in its shard."""
        number, within = self.locations[index]
        entry = self.entries[number]
        starts = [*(chunk[0] for chunk in entry.chunks), entry.bytes - len(END)]
        return range(starts[within], starts[within + 1])

    def _bytes(self, index: int) -> bytes:
        entry, where = self.entries[self.locations[index][0]], self._range(index)
        if self._elsewhere is not None:
            return read_range(self._elsewhere.at(entry.name), where.start, len(where))
        with (self.directory / entry.name).open("rb") as file:
            file.seek(where.start)
            return file.read(len(where))
