"""An iterator of bytes as a file that can be read."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dragoman.model.inputs.compression import plain_blocks


class Blocks(io.RawIOBase):
    """Bytes that come in blocks, read as a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._blocks, self._rest = blocks, memoryview(b"")

    @classmethod
    def of(cls, path: Path) -> BinaryIO:
        """Returns the unpacked content of a file."""
        return cls.from_blocks(plain_blocks(path))

    @classmethod
    def from_blocks(cls, blocks: Iterator[bytes]) -> BinaryIO:
        """Returns the blocks as a buffered file."""
        return io.BufferedReader(cls(blocks))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # any buffer
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
