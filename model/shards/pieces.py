"""Reads single chunks of a shard into memory, for a service that shows some records and must outlive damaged files.

A process that has mapped a file dies of SIGBUS when somebody cuts it; a read returns fewer bytes.
"""

import os
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.shards.layout import END
from dragoman.model.shards.reader import Chunk, ShardReader

LARGEST = 64 << 20  # bytes of a chunk


class PieceReader(ShardReader):
    """One split of a local shard directory. Follows no links and maps nothing."""

    def chunk(self, index: int) -> Chunk:
        """Returns chunk `index`, 0 to `chunks` - 1, compared with the manifest.

        Raises:
            UserError: the file is missing or a link, differs from the manifest, or the chunk is too large.
        """
        number, within = self.places[index]
        entry = self.entries[number]
        starts = [*(chunk[0] for chunk in entry.chunks[within : within + 2]), entry.bytes - len(END)]
        start, size = starts[0], starts[1] - starts[0]
        if start < 0 or not 0 <= size <= LARGEST:
            raise UserError(f"{self.directory / entry.name}: chunk {within} has {size:,} bytes, at most {LARGEST:,}")
        return self._parse(index, _read(self.directory / entry.name, start, size), start, check=True)


def _read(path: Path, start: int, size: int) -> bytes:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            file.seek(start)
            return file.read(size)
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem.strerror})") from None
