"""A split of shards as one long row of tokens, by position; read through the page cache, not held in memory."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest
from dragoman.model.shards.opening import open_reader
from dragoman.model.text.tokenizer import Ids, Tokenizer
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.loaders.segments import chunk_tokens, side_number, side_of

OPEN_CHUNKS = 4096  # cached views of mapped files: opening a chunk checks it, which costs a pass over it


class SplitText:
    """The records of a split in the corpus' order, each with its end of sentence; the row wraps around."""

    def __init__(self, directory: Path, split: str, side: str | None = None, reader: str = "mmap") -> None:
        self.reader = open_reader(directory, split, reader)
        self.side = side_number(self.reader.manifest, side, "loader.side")
        sizes = chunk_tokens(self.reader, self.side)  # (chunks,)
        self.ends: NDArray[np.int64] = np.cumsum(sizes)  # (chunks,) the end of each chunk
        self.starts: NDArray[np.int64] = self.ends - sizes
        self.tokens = int(sizes.sum())  # N
        if not self.tokens:
            raise UserError(f"{directory}: the split {split!r} holds no text")
        self._open: dict[int, Ids] = {}

    @property
    def language(self) -> str:
        return self.reader.manifest.languages[self.side]

    def read(self, start: int, count: int) -> NDArray[np.int64]:
        """Returns (count,) tokens from position `start` (any integer) on, wrapping around at the end."""
        tokens = np.empty(count, dtype=np.int64)
        filled = 0
        position = start % self.tokens
        while filled < count:
            chunk = int(np.searchsorted(self.ends, position, side="right"))
            begin = position - int(self.starts[chunk])
            part = self._chunk(chunk)[begin : begin + count - filled]
            tokens[filled : filled + len(part)] = part
            filled += len(part)
            position = (position + len(part)) % self.tokens
        return tokens

    def rows(self, starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Returns (B, count): the tokens from each of the positions (B,) on."""
        return np.stack([self.read(start, count) for start in starts.tolist()])

    def lengths(self) -> NDArray[np.int64]:
        """Returns (records,) tokens of each with its end; a few bytes per record, meant for held-out splits."""
        sides = (side_of(chunk, self.side == 1) for chunk in self.reader)
        return np.concatenate([np.diff(offsets.astype(np.int64)) for _, offsets in sides])

    def _chunk(self, index: int) -> Ids:
        chunk = self._open.get(index)
        if chunk is None:
            if len(self._open) >= OPEN_CHUNKS:
                self._open.pop(next(iter(self._open)))  # the chunk opened first
            chunk = self._open[index] = side_of(self.reader.chunk(index), self.side == 1)[0]
        return chunk


def side_tokenizer(directory: Path, manifest: Manifest, side: str | None) -> Tokenizer:
    pair = load_pair(directory, manifest.tokenizer)
    return pair.target if side_number(manifest, side, "loader.side") == 1 else pair.source
