"""Ranks that train on their own and agree now and then: averages of the tables, in place.

The rule is pWord2Vec's (Ji et al. 2016, section 3.3, "sub-model synchronisation"): after round i the top
1024 x 2^(zeros at the end of i in binary) rows of each table are averaged, for their words are the frequent ones. Every
row is averaged again and again, the top 1024 after every round, the next 1024 after every second, and so on; the whole
table before each checkpoint and at the end. A table of Huffman nodes follows the same rule: its rows begin with the
root, whose nodes are on every word's path. The squared gradients of AdaGrad are averaged like the rows that they
belong to; so they are those of one rank's share of the text, and its steps stay as long as that rank's would be.

The synchronous reference (synchronous.py) has nothing to average: its tables are equal after every step.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pipelines.cluster.ranks import Ranks
from pipelines.word_vectors.settings import VectorsConfig

TOP_ROWS = 1024  # averaged after every round
AT_ONCE = 4 << 20  # numbers a collective: it needs some room of its own


class Averaging:
    """The tables of this rank, seen as tensors, and how they meet those of the others."""

    def __init__(self, tables: Mapping[str, Any], ranks: Ranks, rule: str) -> None:
        """`tables`: arrays or tensors (rows, width), C-contiguous; they are written to in place."""
        self.tables = {name: as_tensor(table) for name, table in tables.items()}
        self.ranks, self.rule = ranks, rule
        self.rounds = 0  # since the last average of everything
        self._sent = 0  # bytes, by this rank

    def after_round(self) -> None:
        """What is due after one more round. All ranks call it together."""
        self.rounds += 1
        for table in self.tables.values():
            self._average(table[: len(table) if self.rule == "full" else rows_due(self.rounds)])

    def everything(self) -> None:
        """Make all rows equal on all ranks. All ranks call it together."""
        if self.rounds and self.rule != "full":
            for table in self.tables.values():
                self._average(table)
        self.rounds = 0

    def sent_since(self) -> int:
        """Bytes that this rank has sent since the last question."""
        sent, self._sent = self._sent, 0
        return sent

    def _average(self, rows: Tensor) -> None:
        """(rows, width): the mean over the ranks, in place and piece by piece, so that nothing is copied."""
        world = self.ranks.world
        if world == 1:
            return
        for piece in torch.split(rows.view(-1), AT_ONCE):
            dist.all_reduce(piece)
            piece.div_(world)
        # a ring sends each number (world - 1) / world times to be summed and as often to be spread
        self._sent += 2 * rows.numel() * rows.element_size() * (world - 1) // world


class Synchronous:
    """In the place of an Averaging, where the learner itself meets the other ranks at every step."""

    def __init__(self, learner: Any) -> None:
        self.sent_since = learner.sent_since  # bytes that this rank has sent since the last question

    def after_round(self) -> None:
        """Nothing is left to do."""

    def everything(self) -> None:
        """Nothing is left to do."""


def make_averaging(learner: Any, ranks: Ranks, config: VectorsConfig) -> Averaging | Synchronous:
    """How this rank's tables meet the others'."""
    return Synchronous(learner) if config.backend == "ddp" else Averaging(learner.tables, ranks, config.average)


def rows_due(rounds: int) -> int:
    """How many rows from the top are averaged after round `rounds` = 1, 2, ..."""
    return TOP_ROWS * (rounds & -rounds)


def rate_factor(lr: float, world: int, config: VectorsConfig) -> float:
    """What `world` ranks multiply the learning rate by: an average divides what each has learned alone by their number.

    At most as much as brings `lr` to vectors.max_lr; 1 where it is higher already.
    """
    if not config.scale_lr or config.backend == "ddp":
        return 1.0
    return min(float(world), max(1.0, config.max_lr / lr)) if lr > 0 else 1.0


def finite(tables: Mapping[str, Any]) -> bool:
    """Whether no number is infinite or none at all; looked at piece by piece."""
    return all(
        bool(torch.isfinite(piece).all())
        for table in tables.values()
        for piece in torch.split(as_tensor(table).view(-1), AT_ONCE)
    )


def as_tensor(table: Any) -> Tensor:
    """The same memory as a tensor."""
    return table if isinstance(table, Tensor) else torch.from_numpy(table)
