"""The text of an epoch in segments, straight from the shards, without tokenising; only the rows are copied.

An epoch is a permutation of the chunks by (seed, epoch), concatenated. Segment s of S holds the whole records that
begin in the s-th of S equal parts. So every record occurs once per epoch, S is the same in all of them, and a segment
depends only on (seed, epoch, s): any number of ranks gets the same ones.
"""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest, read_manifest
from dragoman.model.shards.reader import Chunk, ShardReader
from dragoman.model.text.tokenizer import Tokenizer
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.vocabulary import Vocabulary
from dragoman.pipelines.loaders.window import philox_order

COUNTED_AT_ONCE = 4 << 20  # tokens
NOTHING = Text(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64))


class Feed(Protocol):
    """The training loop's view of a text, or of counts made from it."""

    segments: int  # per epoch, the same in each
    unit: str  # unit of `size`

    def segment(self, epoch: int, index: int) -> Any:
        """Returns segment `index` of an epoch for a Learner; depends only on its arguments."""
        ...

    def size(self, segment: Any) -> int:
        """Returns the segment's size in `unit`."""
        ...


class ShardText:
    """One split of a shard directory as segments of about `segment_words` tokens."""

    unit = "words"

    def __init__(
        self,
        directory: Path,
        split: str,
        vocabulary: Vocabulary,
        side: str | None = None,
        segment_words: int = 50_000,
        seed: int = 1,
    ) -> None:
        self.reader = ShardReader(directory, split)
        self.seed, self._rows = seed, vocabulary.rows
        self._target = side_number(self.reader.manifest, side) == 1
        self._sizes = chunk_tokens(self.reader, int(self._target))  # (chunks,)
        self.tokens = int(self._sizes.sum())  # per epoch, with ends of records
        self.segments = max(1, round(self.tokens / segment_words))
        self._epoch = -1
        self._order = self._ends = np.zeros(0, dtype=np.int64)  # (chunks,) of the epoch
        self._open: tuple[int, Chunk] | None = None  # a chunk holds several segments, or a part of one

    def segment(self, epoch: int, index: int) -> Text:
        if epoch != self._epoch:
            self._epoch, self._order = epoch, philox_order(self.reader.chunks, self.seed, epoch)
            self._ends = np.cumsum(self._sizes[self._order])
        first, last = (edge * self.tokens // self.segments for edge in (index, index + 1))
        if first == last:  # more segments than tokens
            return NOTHING
        at, end = np.searchsorted(self._ends, [first, last - 1], side="right")
        parts = [self._part(index, first, last) for index in range(at, end + 1)]
        lengths = np.concatenate([lengths for _, lengths in parts])
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Text(self._rows[np.concatenate([ids for ids, _ in parts])], offsets)

    def size(self, segment: Text) -> int:
        return len(segment.rows) - (len(segment.offsets) - 1)  # every record ends with EOS

    def _part(self, index: int, first: int, last: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Returns (ids, lengths) of the records of the epoch's chunk `index` that begin in `first` to `last` - 1."""
        number = int(self._order[index])
        ids, offsets = side_of(self._chunk(number), self._target)
        begin = int(self._ends[index] - self._sizes[number])
        low, high = np.searchsorted(offsets[:-1], [max(0, first - begin), last - begin], side="left")
        bounds = offsets[low : high + 1].astype(np.int64)
        return ids[bounds[0] : bounds[-1]], bounds[1:] - bounds[:-1]

    def _chunk(self, number: int) -> Chunk:
        if self._open is None or self._open[0] != number:
            self._open = number, self.reader.chunk(number)
        return self._open[1]


def shard_vocabulary(directory: Path, side: str | None, min_count: int) -> tuple[Vocabulary, Tokenizer]:
    """Counts the words of the training split; returns them and their tokenizer."""
    reader = ShardReader(directory, "train")
    number = side_number(reader.manifest, side)
    pair = load_pair(directory, reader.manifest.tokenizer)
    tokenizer = pair.target if number == 1 else pair.source
    counts = token_counts(reader, number, tokenizer.vocabulary)
    return Vocabulary.of(tokenizer.pieces(range(tokenizer.vocabulary)), counts, min_count), tokenizer


def token_counts(reader: ShardReader, side: int, vocabulary: int) -> NDArray[np.int64]:
    """Returns (vocabulary,): how often each token id occurs in the split."""
    counts = np.zeros(vocabulary, dtype=np.int64)
    waiting: list[NDArray[Any]] = []
    size = 0
    for chunk in reader:  # several chunks at a time: a bincount costs the vocabulary's size, however short the chunk
        waiting.append(side_of(chunk, side == 1)[0])
        size += len(waiting[-1])
        if size >= COUNTED_AT_ONCE:
            counts += np.bincount(np.concatenate(waiting), minlength=vocabulary)
            waiting, size = [], 0
    if waiting:
        counts += np.bincount(np.concatenate(waiting), minlength=vocabulary)
    return counts


def chunk_tokens(reader: ShardReader, side: int) -> NDArray[np.int64]:
    """Returns (chunks,) tokens of each, with ends of records; from the manifest, so it reads no shard."""
    return np.asarray([chunk[2 + side] for entry in reader.entries for chunk in entry.chunks], dtype=np.int64)


def side_of(chunk: Chunk, target: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns (ids, offsets) of one side."""
    return (chunk.target, chunk.target_offsets) if target else (chunk.source, chunk.source_offsets)


def side_number(manifest: Manifest, side: str | None, key: str = "vectors.side") -> int:
    """Returns the side of the shards that holds the text, 0 or 1; `key` is the setting that chooses."""
    pair = "-".join(manifest.languages)
    if manifest.kind != "parallel":
        if side is not None:
            raise UserError(f"{key}={side}: the shards hold one language ({pair}); leave it out")
        return 0
    if side is None:
        what = "word vectors are" if key == "vectors.side" else "a language model is"
        raise UserError(
            f"{key}: the shards are of pairs of sentences ({pair}) and {what} of one language. "
            f"Choices: {key}=source ({manifest.languages[0]}), {key}=target ({manifest.languages[1]})"
        )
    return 0 if side == "source" else 1


def language(directory: Path, side: str | None) -> str:
    manifest = read_manifest(directory)
    return manifest.languages[side_number(manifest, side)]
