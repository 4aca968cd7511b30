"""Averages the tables of ranks that train independently, in place.

The rule is pWord2Vec's (Ji et al. 2016, section 3.3, "sub-model synchronisation"): after round i the top
1024 x 2^(zeros at the end of i in binary) rows of each table are averaged, since they belong to frequent words. So the
top 1024 are averaged after every round, the next 1024 after every second, and so on, and the whole table before each
checkpoint and at the end. A table of Huffman nodes follows the same rule: it begins with the root and the nodes on
every word's path. AdaGrad's squared gradients are averaged like their rows, so they are those of one rank's part of the
text, and steps stay as long as that rank's would be.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.word_vectors.settings import VectorsConfig

TOP_ROWS = 1024  # averaged after every round
AT_ONCE = 4 << 20  # numbers per collective, which needs memory of its own


class Averaging:
    """This rank's tables as tensors, and their averaging with the other ranks'."""

    def __init__(self, tables: Mapping[str, Any], ranks: Ranks) -> None:
        """`tables`: arrays or tensors (rows, width), C-contiguous, written in place."""
        self.tables = {name: as_tensor(table) for name, table in tables.items()}
        self.ranks = ranks
        self.rounds = 0  # since the last average of everything
        self._sent = 0  # bytes sent by this rank

    def after_round(self) -> None:
        """Averages the rows that are due after one more round. All ranks call it together."""
        self.rounds += 1
        for table in self.tables.values():
            self._average(table[: rows_due(self.rounds)])

    def everything(self) -> None:
        """Makes all rows equal on all ranks. All ranks call it together."""
        if self.rounds:
            for table in self.tables.values():
                self._average(table)
        self.rounds = 0

    def sent_since(self) -> int:
        """Returns the bytes that this rank has sent since the last call."""
        sent, self._sent = self._sent, 0
        return sent

    def _average(self, rows: Tensor) -> None:
        """Averages (rows, width) over the ranks, in place and piece by piece, without copies."""
        world = self.ranks.world
        if world == 1:
            return
        for piece in torch.split(rows.view(-1), AT_ONCE):
            dist.all_reduce(piece)
            piece.div_(world)
        # a ring sends each number (world - 1) / world times for the sum and as often to distribute it
        self._sent += 2 * rows.numel() * rows.element_size() * (world - 1) // world


def rows_due(rounds: int) -> int:
    """Returns the number of top rows to average after round `rounds` = 1, 2, ..."""
    return TOP_ROWS * (rounds & -rounds)


def rate_factor(lr: float, world: int, config: VectorsConfig) -> float:
    """Returns the factor of the learning rate for `world` ranks, since averaging divides each rank's change by them.

    It raises `lr` to vectors.max_lr at most; 1 if `lr` is higher already.
    """
    if not config.scale_lr:
        return 1.0
    return min(float(world), max(1.0, config.max_lr / lr)) if lr > 0 else 1.0


def finite(tables: Mapping[str, Any]) -> bool:
    """Returns True if all numbers are finite; checks piece by piece."""
    return all(
        bool(torch.isfinite(piece).all())
        for table in tables.values()
        for piece in torch.split(as_tensor(table).view(-1), AT_ONCE)
    )


def as_tensor(table: Any) -> Tensor:
    """Returns the same memory as a tensor."""
    return table if isinstance(table, Tensor) else torch.from_numpy(table)
