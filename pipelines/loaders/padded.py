"""Pads a window's batches a few at a time, so that Python's overhead is paid once for all of them."""

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.text.batch import TranslationBatch, compiled
from dragoman.pipelines.loaders.window import Window

TOGETHER = 4  # batches; more would leave the CPU cache before their use


class PaddedBatches:
    """Batches of records sorted by length, in any sequence: `batch` takes a place in `order`."""

    def __init__(self, window: Window, parts: list[slice], order: NDArray[np.int64]) -> None:
        self.window, self.parts, self.order = window, parts, order
        self.bounds = np.array([0, *(part.stop for part in parts)])
        firsts = self.bounds[:-1]
        self.rows = np.diff(self.bounds)  # (batches,), as all that follow
        self.sources = _reduce_batches(np.maximum, window.source_lengths, firsts)  # width
        self.targets = _reduce_batches(np.maximum, window.target_lengths, firsts)
        self.items = _reduce_batches(np.add, window.target_lengths, firsts)  # tokens
        self.source_items = _reduce_batches(np.add, window.source_lengths, firsts)
        self._made: tuple[int, list[TranslationBatch]] = -1, []  # the place of the first, and the cached batches

    def __len__(self) -> int:
        return len(self.parts)

    def batch(self, place: int) -> TranslationBatch:
        """Returns the batch at this place of the order; makes its neighbours too."""
        first = place - place % TOGETHER
        if self._made[0] != first:
            self._made = first, self._make(self.order[first : first + TOGETHER])
        return self._made[1][place - first]

    def _make(self, chosen: NDArray[np.int64]) -> list[TranslationBatch]:
        """Puts the batches' tensors one after the other in memory: source, target in, target out of each."""
        copies = compiled()
        if copies is None:
            return [self.window.batch(self.parts[number]) for number in chosen]
        window = self.window
        source = self.rows[chosen] * self.sources[chosen]
        target = self.rows[chosen] * self.targets[chosen]
        sizes = np.stack([source, target, target], 1)  # (chosen, 3)
        places = np.ascontiguousarray((np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape).T)
        out = np.empty(int(sizes.sum()), dtype=np.int64)
        side = window.source, window.source_starts, window.source_lengths
        copies.fill_tables(*side, self.bounds, self.sources, chosen, places[0], 0, out)
        side = window.target, window.target_starts, window.target_lengths
        copies.fill_tables(*side, self.bounds, self.targets, chosen, places[1], 1, out)
        copies.fill_tables(*side, self.bounds, self.targets, chosen, places[2], 0, out)
        tables = iter(torch.split(torch.from_numpy(out), sizes.ravel().tolist()))
        batches = []
        for at in chosen.tolist():
            source_table, target_in, target_out = (next(tables).view(int(self.rows[at]), -1) for _ in range(3))
            items, source_items = int(self.items[at]), int(self.source_items[at])
            ids = window.ids[self.parts[at]]
            batches.append(TranslationBatch(source_table, target_in, target_out, items, source_items, ids))
        return batches


def _reduce_batches(what: np.ufunc, lengths: NDArray[np.int64], firsts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reduces lengths over the records of each batch; `firsts` are the starts of batches."""
    reduced: NDArray[np.int64] = what.reduceat(lengths, firsts) if len(firsts) else firsts
    return reduced
