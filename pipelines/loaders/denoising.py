"""Batches of noised texts and the texts themselves, for encoder-decoders that are pre-trained by denoising.

Both sides of the pairs are texts by themselves, each once an epoch; `loader.side` takes one side alone. Their order is
that of pairs (`pipelines/loaders/pairs.py`), and their noise depends only on (seed, epoch, record, side).
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError
from model.shards.reader import ShardReader
from model.text.batch import TranslationBatch
from model.text.tokenizer import PAD
from model.text.tokenizers import load_pair
from pipelines.loaders.mix import Slice
from pipelines.loaders.modifiers import any_of
from pipelines.loaders.noise import Noise, Row, noise_of
from pipelines.loaders.pairs import OF_PAIRS, LaneLoader
from pipelines.loaders.window import Window, philox
from pipelines.settings import LoaderConfig

OF_NOISE = ("denoise", "noise_share", "span_length", "permute_sentences", "side")
OF_DENOISING = (*OF_PAIRS, *OF_NOISE)
HELD_OUT_NOISE = 0x6E6F6973, 0  # random key of held-out noise: the same for every run and model


@dataclass
class NoisedBatch(TranslationBatch):
    """Its digest covers the noise too, so that a journal proves it."""

    def digest(self) -> int:
        """Returns the crc32 of the ids and of the source's tokens, without padding."""
        tokens = self.source[self.source != PAD].cpu().numpy().astype("<i8")
        return zlib.crc32(tokens.tobytes(), super().digest())


class DenoisingLoader(LaneLoader):
    """This rank's lanes of a split, without end.

    Raises:
        UserError: as `LaneLoader`, settings of the noise that do not fit, or two vocabularies.
    """

    def __init__(self, reader: ShardReader, config: LoaderConfig, seed: int = 1, rank: int = 0, world: int = 1) -> None:
        super().__init__(reader, config, seed, rank, world)
        self.noise = noise_for(reader, config)

    def settings(self) -> Mapping[str, Any]:
        return {**super().settings(), **{f"loader.{key}": getattr(self.config, key) for key in OF_NOISE}}

    def read(self, lane: int, epoch: int, number: int, slices: list[Slice]) -> Window:
        """Returns the slices' texts with the noise of this epoch."""
        window = super().read(lane, epoch, number, slices)
        return noised(window, self.noise, self.config.side, (self.seed, epoch))

    def batches(
        self, window: Window, parts: list[slice], order: NDArray[np.int64]
    ) -> Callable[[int], TranslationBatch]:
        return lambda place: NoisedBatch(**vars(window.batch(parts[order[place]])))


def noise_for(reader: ShardReader, config: LoaderConfig) -> Noise:
    """Returns the noise for the shards' vocabulary.

    Raises:
        UserError: two vocabularies, training from target to source, or settings of the noise that do not fit.
    """
    pair = load_pair(reader.directory, reader.manifest.tokenizer)
    if not pair.joint:
        raise UserError(
            f"loader.denoise={config.denoise}: reads and writes one language, so it needs one vocabulary for both "
            f"sides. Choices: tokenizer.joint=true and sharding again, or loader.denoise=none"
        )
    if config.both_directions:
        raise UserError(f"loader.both_directions={config.both_directions}: not with loader.denoise; choose 0")
    if reader.manifest.parts:
        raise UserError(f"loader.denoise={config.denoise}: not on a mix, whose tags are for translation; choose none")
    if any_of(config.modifiers):
        raise UserError(f"loader.modifiers: not with loader.denoise={config.denoise}; leave them at 0")
    return noise_of(config, pair.source)


def noised(window: Window, noise: Noise, side: str | None, key: tuple[int, int]) -> Window:
    """Returns the texts of a window: noised ones as sources. Record i's sides have the ids 2 i and 2 i + 1."""
    ids, sources, targets = [], [], []
    for number, (one, text) in enumerate((("source", window), ("target", window.turned()))):
        if side not in (None, one):
            continue
        for record, start, length in zip(
            window.ids.tolist(), text.source_starts.tolist(), text.source_lengths.tolist(), strict=True
        ):
            row = text.source[start : start + length].astype(np.int64)
            source, target = noise.apply(row, philox(*key, 2 * record + number, 4))
            ids.append(2 * record + number)
            sources.append(source)
            targets.append(target)
    return Window(np.array(ids, dtype=np.int64), *packed(sources), *packed(targets))


def packed(rows: list[Row]) -> tuple[Row, NDArray[np.int64], NDArray[np.int64]]:
    """Returns (ids, starts, lengths) of rows, one after the other."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.concatenate(rows), np.cumsum(lengths) - lengths, lengths


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
    window = noised(window, noise_for(reader, config), config.side, HELD_OUT_NOISE)
    window, parts = window.batches(np.arange(len(window.ids)), config.batch_tokens)
    for part in parts[rank::world]:
        yield window.batch(part)
