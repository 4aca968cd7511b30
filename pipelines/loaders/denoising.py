"""Batches of noised texts and the texts themselves, for encoder-decoders that are pre-trained by denoising.

Both sides of the pairs are texts by themselves, each once an epoch; `loader.side` takes one side alone. Their order is
that of pairs (`pipelines/loaders/pairs.py`), and their noise depends only on (seed, epoch, record, side). On a mix the
epoch is that of the record's corpus; the tags before its sources are for translation and are left out.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch, bounds_of
from dragoman.model.text.tokenizer import PAD
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.text.word_table import SPACE
from dragoman.pipelines.loaders.mix import Slice
from dragoman.pipelines.loaders.noise import Noise, Row, noise_of
from dragoman.pipelines.loaders.pairs import LaneLoader, epochs_of
from dragoman.pipelines.loaders.window import Window, philox
from dragoman.pipelines.settings import LoaderConfig

OF_NOISE = ("denoise", "noise_share", "span_length", "side")
HELD_OUT_NOISE = 0x6E6F6973, 0  # random key of held-out noise: the same for every run and model


@dataclass
class NoisedBatch(TranslationBatch):
    """Its digest covers the noise too, so that a journal proves it."""

    def digest(self) -> int:
        """Returns the crc32 of the ids and of the source's tokens, without padding."""
        tokens = self.source[self.source != PAD].cpu().numpy().astype("<i8")
        return zlib.crc32(tokens.tobytes(), super().digest())


class DenoisingLoader(LaneLoader):
    """This rank's lanes of a split, without end."""

    of: ClassVar[tuple[str, ...]] = (*LaneLoader.of, *OF_NOISE)

    def __init__(self, reader: ShardReader, config: LoaderConfig, seed: int = 1, rank: int = 0, world: int = 1) -> None:
        self.noise, self.tags = noise_for(reader, config), tag_ids(reader)
        super().__init__(reader, config, seed, rank, world)

    def records_of(self, batch: TranslationBatch) -> NDArray[np.int64]:
        return batch.ids // 2

    def read(self, lane: int, epoch: int, number: int, slices: list[Slice]) -> Window:
        """Returns the slices' texts with the noise of this epoch."""
        texts = texts_of(super().read(lane, epoch, number, slices), self.config.side, self.tags)
        epochs = np.tile(epochs_of(slices), 1 if self.config.side else 2)
        return noised(texts, self.noise, self.seed, epochs)

    def batches(
        self, window: Window, parts: list[slice], order: NDArray[np.int64]
    ) -> Callable[[int], TranslationBatch]:
        return lambda index: NoisedBatch(**vars(window.batch(parts[order[index]])))


def noise_for(reader: ShardReader, config: LoaderConfig) -> Noise:
    pair = load_pair(reader.directory, reader.manifest.tokenizer)
    if not pair.joint:
        raise UserError(
            f"loader.denoise={config.denoise}: reads and writes one language, so it needs one vocabulary for both "
            f"sides. Choices: tokenizer.joint=true and sharding again, or loader.denoise=none"
        )
    if config.both_directions:
        raise UserError(f"loader.both_directions={config.both_directions}: not with loader.denoise; choose 0")
    return noise_of(config, pair.source)


def tag_ids(reader: ShardReader) -> frozenset[int]:
    """Returns the ids of the tags before the sources of a mix."""
    tags = {f"{SPACE}{tag}" for part in reader.manifest.parts for tag in part.tags}
    tokenizer = load_pair(reader.directory, reader.manifest.tokenizer).source
    pieces = tokenizer.pieces(range(tokenizer.vocabulary)) if tags else []
    return frozenset(number for number, piece in enumerate(pieces) if piece in tags)


def texts_of(window: Window, side: str | None, tags: frozenset[int]) -> Window:
    """Returns the texts of a window of pairs, each as its own source and target.

    Record i's have the ids 2 i and 2 i + 1. All sources come first, then all targets. Leading `tags` are left out.
    """
    ids, rows = [], []
    for number, (side_name, text) in enumerate((("source", window), ("target", window.turned()))):
        if side in (None, side_name):
            ids.append(2 * window.ids + number)
            rows += [untagged(text.source_row(index), tags) for index in range(len(window.ids))]
    texts = packed(rows)
    return Window(np.concatenate(ids), *texts, *texts)


def untagged(row: NDArray[Any], tags: frozenset[int]) -> Row:
    """Returns the row without the tags that it begins with."""
    first = next(index for index, token in enumerate(row.tolist()) if token not in tags) if tags else 0
    return row[first:].astype(np.int64)


def noised(texts: Window, noise: Noise, seed: int, epochs: NDArray[np.int64]) -> Window:
    """Returns the same texts, the sources with the noise of (seed, epoch, id)."""
    sources, targets = [], []
    for index, (number, epoch) in enumerate(zip(texts.ids.tolist(), epochs.tolist(), strict=True)):
        source, target = noise.apply(texts.source_row(index), philox(seed, epoch, number, 4))
        sources.append(source)
        targets.append(target if noise.kind == "spans" else texts.target_row(index))
    return Window(texts.ids, *packed(sources), *packed(targets))


def packed(rows: list[Row]) -> tuple[Row, NDArray[np.int64], NDArray[np.int64]]:
    """Returns (ids, starts, lengths) of rows, one after the other."""
    return np.concatenate(rows), *bounds_of(rows)


def held_out_noised(
    reader: ShardReader, config: LoaderConfig, rank: int = 0, world: int = 1, records: int = 0
) -> Iterator[TranslationBatch]:
    """Yields every text of a split once with fixed noise, sorted by length, dealt to ranks batch by batch.

    `records` takes the first ones only; 0: all.
    """
    if reader.chunks == 0:
        return
    window = Window.of(list(reader))
    window = window.take(np.arange(min(records or reader.records, reader.records)))
    texts = texts_of(window, config.side, tag_ids(reader))
    seed, epoch = HELD_OUT_NOISE
    window = noised(texts, noise_for(reader, config), seed, np.full(len(texts.ids), epoch))
    window, parts = window.batches(np.arange(len(window.ids)), config.batch_tokens)
    for part in parts[rank::world]:
        yield window.batch(part)
