"""Batches of labelled texts, ordered and dealt to lanes as sentence pairs are (`pipelines/loaders/pairs.py`)."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import Chunk, ShardReader
from dragoman.model.text.batch import pad
from dragoman.model.text.labels import FIRST, LabelTokenizer
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD
from dragoman.pipelines.loaders.pairs import limit_of
from dragoman.pipelines.loaders.prefetch import ChunkLanes, OpenWindow
from dragoman.pipelines.loaders.window import Window, cut, philox_order
from dragoman.pipelines.settings import LoaderConfig


class LabelledWindow:
    """The labelled texts of some chunks."""

    def __init__(self, chunks: Sequence[Chunk], labels: LabelTokenizer) -> None:
        self.window, self.task = Window.of(chunks), labels.task

    def fitting(self, rows: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
        """Returns those of `rows` that have at most `longest` tokens."""
        return rows[self.window.source_lengths[rows] <= longest]

    def cut(self, rows: NDArray[np.int64], batch_tokens: int) -> tuple[NDArray[np.int64], list[slice]]:
        """Returns `rows` sorted by length, and the slices that make a batch each."""
        return cut(rows, self.window.source_lengths, self.window.source_lengths, batch_tokens)

    def batch(self, rows: NDArray[np.int64], lane: int = 0) -> TextBatch:
        """Returns these texts as a padded batch: inputs (B, T), targets (B, 1), for tags (B, T)."""
        window = self.window
        inputs = torch.from_numpy(pad(window.source, window.source_starts[rows], window.source_lengths[rows]))
        if self.task == "classes":
            labels = window.target[window.target_starts[rows]].astype(np.int64)
            targets, items = torch.from_numpy(labels[:, None]), len(rows)
        else:
            table = pad(window.target, window.target_starts[rows], window.target_lengths[rows])
            table[table < FIRST] = PAD  # further pieces of words, the end of the text
            targets, items = torch.from_numpy(table), int(np.count_nonzero(table))
        return TextBatch(inputs, targets, items, window.ids[rows], lane)


class LabelledLoader(ChunkLanes[TextBatch]):
    """This rank's lanes of a split of labelled texts, without end; texts longer than `max_length` are left out."""

    of: ClassVar[tuple[str, ...]] = ("lanes", "batch_tokens", "window_chunks", "max_length")

    def __init__(
        self,
        reader: ShardReader,
        labels: LabelTokenizer,
        config: LoaderConfig,
        seed: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(reader, config, seed, rank, world)
        self.labels = labels

    def nothing_fits(self, lane: int) -> UserError:
        return UserError(f"{limit_of(self.config)}: all texts of lane {lane} are longer")

    def open(self, lane: int, epoch: int, number: int) -> OpenWindow[TextBatch]:
        chunks = [self.reader.chunk(i) for i in self.chunks_of(epoch, number)]
        window = LabelledWindow(chunks, self.labels)
        rows = window.fitting(philox_order(len(window.window.ids), self.seed, epoch, number + 1, 1), self.longest)
        rows, parts = window.cut(rows, self.config.batch_tokens)
        order = philox_order(len(parts), self.seed, epoch, number + 1, 2).tolist()
        return OpenWindow(len(order), lambda index: window.batch(rows[parts[order[index]]], lane))


def held_out_labelled(
    reader: ShardReader, labels: LabelTokenizer, longest: int, batch_tokens: int, rank: int = 0, world: int = 1
) -> Iterator[TextBatch]:
    """Yields every text of a split of at most `longest` tokens once, sorted by length, dealt to ranks batch by batch.

    Holds the whole split in memory: it is meant for held-out sets.
    """
    window = LabelledWindow(list(reader), labels)
    rows, parts = window.cut(window.fitting(np.arange(len(window.window.ids)), longest), batch_tokens)
    for part in parts[rank::world]:
        yield window.batch(rows[part])
