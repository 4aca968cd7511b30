"""The random draws of a segment, made for all of its words at once on any device.

m kept words, K negatives, W the widest window. Margins that belong to no record surround the stream of kept words, so
that every window of a step of fixed size can be read without bounds checks.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.sampling import AliasTable
from dragoman.model.word_vectors.word2vec import Word2VecConfig

NO_RECORD = -1


@dataclass(frozen=True)
class Draws:
    """A segment after subsampling, with the window and the negatives of every kept word; M = W + m + margin."""

    rows: Tensor  # (M,) int64, 0 in the margins
    records: Tensor  # (M,) int64, the number of the word's record; NO_RECORD in the margins
    radius: Tensor  # (M,) int64, 1 to W
    negatives: Tensor  # (M, K) int64
    kept: int  # m; kept word i stands at W + i


class Sampler:
    """Draws by the text's word counts: subsampling, dynamic windows, negatives from an alias table (Walker 1977)."""

    def __init__(
        self, config: Word2VecConfig, keep: NDArray[np.float64], noise: AliasTable | None, device: torch.device
    ) -> None:
        """`keep` (V,): the probability that a word stays; `noise`: the distribution of negatives, if any."""
        self.window, self.dynamic_window = config.window, config.dynamic_window
        self.negatives = config.negatives if noise else 0
        self.device = device
        self._thins = bool((keep < 1).any())
        self._keep = torch.from_numpy(keep).to(device)
        if noise:
            self._thresholds = torch.from_numpy(noise.thresholds).to(device)
            self._aliases = torch.from_numpy(noise.aliases).to(device)

    def draw(self, segment: Text, seed: int, margin: int) -> Draws:
        """The same segment and seed give the same draws on one kind of device; `margin`: empty places at the end."""
        chance = torch.Generator(self.device).manual_seed(seed)
        rows = torch.from_numpy(segment.rows[segment.offsets[0] : segment.offsets[-1]]).to(self.device)
        lengths = torch.from_numpy(np.diff(segment.offsets)).to(self.device)
        numbers = torch.arange(len(lengths), device=self.device)
        records = torch.repeat_interleave(numbers, lengths, output_size=len(rows))
        present = rows >= 0
        rows, records = rows[present].long(), records[present]
        if self._thins:
            stays = torch.rand(len(rows), generator=chance, device=self.device) < self._keep[rows]
            rows, records = rows[stays], records[stays]
        kept, size = len(rows), self.window + len(rows) + margin
        around = (self.window, margin)
        if self.dynamic_window:
            radius = torch.randint(1, self.window + 1, (size,), generator=chance, device=self.device)
        else:
            radius = torch.full((size,), self.window, device=self.device)
        return Draws(
            torch.nn.functional.pad(rows, around),
            torch.nn.functional.pad(records, around, value=NO_RECORD),
            radius,
            self._noise(size, chance),
            kept,
        )

    def _noise(self, size: int, chance: torch.Generator) -> Tensor:
        """(size, K) rows by the alias method: a uniform row, or with the complementary probability its alias."""
        shape = (size, self.negatives)
        if not self.negatives:
            return torch.empty(shape, dtype=torch.int64, device=self.device)
        first = torch.randint(len(self._thresholds), shape, generator=chance, device=self.device)
        level = torch.rand(shape, generator=chance, device=self.device)
        return torch.where(level < self._thresholds[first], first, self._aliases[first])
