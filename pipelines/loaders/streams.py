"""Batches of one language's text: continued streams for recurrent networks, windows for those with a bounded context.

`StreamLoader`: each batch continues the previous one, so that states can be carried. The split is one stream of N
tokens. An epoch begins at its own offset, wraps around once, and is cut into lanes x rows equal parts; each part is a
row of a batch for the whole epoch, and a step takes the next T tokens of every row. So a row's state at the end of a
batch is the start of its next batch (truncated back-propagation through time). All rows start fresh in each epoch. The
tokens of a part after its last whole step, and the last N mod (lanes x rows) tokens, are dropped; each offset drops
others.

Everything depends only on (seed, epoch, lane, step), as `pipelines/loaders/prefetch.py` requires: a lane has one window
per epoch.

`WindowLoader`: windows of T tokens, in another order each epoch. An epoch cuts the split into windows of T tokens,
starting from an offset below T. A window belongs to the chunk in which it begins, and may end in the next. Chunks are
shuffled and dealt to the lanes in groups, as for pairs (`pipelines/loaders/pairs.py`); the windows of a group are
shuffled. So an epoch reads every token once, except those before the offset and after the last window, and only one
group's chunks are read at a time, whatever the corpus size.
"""

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.ranges import check_ranges
from dragoman.model.text.text_batch import TextBatch
from dragoman.pipelines.loaders.prefetch import ChunkLanes, Lanes, OpenWindow
from dragoman.pipelines.loaders.text import SplitText
from dragoman.pipelines.loaders.window import philox, philox_order
from dragoman.pipelines.settings import LoaderConfig


class WindowLoader(ChunkLanes[TextBatch]):
    """This rank's lanes of a split, without end."""

    of: ClassVar[tuple[str, ...]] = ("lanes", "batch_tokens", "window_chunks", "context_length", "side")

    def __init__(self, text: SplitText, config: LoaderConfig, seed: int = 1, rank: int = 0, world: int = 1) -> None:
        super().__init__(text.reader, config, seed, rank, world)
        self.text = text
        self.rows, self.length = rows_of(config), config.context_length  # B, T
        if text.tokens < self.length:
            raise UserError(f"loader.context_length={self.length}: the text has only {text.tokens:,} tokens")

    def nothing_fits(self, lane: int) -> UserError:
        return UserError(f"loader.context_length={self.length}: no window of lane {lane} is so long")

    def open(self, lane: int, epoch: int, number: int) -> OpenWindow[TextBatch]:
        """Returns the group's windows, shuffled."""
        room = min(self.length, self.text.tokens - self.length + 1)  # a short text has fewer offsets to start at
        offset = int(philox(self.seed, epoch, 0, 1).random_raw() % room)
        starts = np.concatenate([self._starts(chunk, offset) for chunk in self.chunks_of(epoch, number)])
        starts = starts[philox_order(len(starts), self.seed, epoch, number + 1, 1)]
        return OpenWindow(
            -(-len(starts) // self.rows),
            lambda index: text_batch(self.text, starts[index * self.rows :][: self.rows], self.length, lane),
        )

    def _starts(self, chunk: int, offset: int) -> NDArray[np.int64]:
        """Returns the positions of the windows that begin in the chunk and end within the text."""
        begin, end = int(self.text.starts[chunk]), int(self.text.ends[chunk])
        first = offset + -(-max(begin - offset, 0) // self.length) * self.length
        return np.arange(first, min(end, self.text.tokens - self.length + 1), self.length, dtype=np.int64)


class StreamLoader(Lanes[TextBatch]):
    """This rank's lanes of a split, without end."""

    of: ClassVar[tuple[str, ...]] = ("lanes", "batch_tokens", "context_length", "side")

    def __init__(self, text: SplitText, config: LoaderConfig, seed: int = 1, rank: int = 0, world: int = 1) -> None:
        super().__init__(text.reader, config, seed, rank, world)
        self.text = text
        self.rows = rows_of(config)  # B of each lane
        self.windows = config.lanes
        self.part = text.tokens // (config.lanes * self.rows)  # tokens of a row per epoch
        if self.part < 1:
            raise UserError(
                f"loader.batch_tokens={config.batch_tokens}: {config.lanes} lanes of {self.rows} rows are more than "
                f"the {text.tokens:,} tokens of the text"
            )
        self.length = min(config.context_length, self.part)  # T

    def nothing_fits(self, lane: int) -> UserError:
        raise AssertionError(f"lane {lane}: every epoch has a step")

    def open(self, lane: int, epoch: int, number: int) -> OpenWindow[TextBatch]:
        """Returns the lane's rows of an epoch."""
        offset = int(philox(self.seed, epoch).random_raw() % self.text.tokens)
        parts = lane * self.rows + np.arange(self.rows, dtype=np.int64)
        starts, length = offset + parts * self.part, self.length  # (B,) positions of the rows' first targets
        return OpenWindow(
            self.part // length, lambda index: text_batch(self.text, starts + index * length, length, lane, index > 0)
        )


def text_batch(
    text: SplitText, starts: NDArray[np.int64], length: int, lane: int = 0, goes_on: bool = False
) -> TextBatch:
    """Returns the targets at `length` positions from each of `starts` (B,), and the token before each."""
    tokens = torch.from_numpy(text.rows(starts - 1, length + 1))  # (B, T + 1)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    return TextBatch(inputs, targets, targets.numel(), starts % text.tokens, lane, goes_on)


def rows_of(config: LoaderConfig) -> int:
    """Returns the rows of a lane's batch."""
    check_ranges("loader", config)
    rows = config.batch_tokens // config.context_length
    if rows < 1:
        raise UserError(
            f"loader.batch_tokens={config.batch_tokens}: holds no row of "
            f"loader.context_length={config.context_length} tokens"
        )
    return rows
