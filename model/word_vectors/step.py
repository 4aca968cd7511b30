"""One step of word2vec in torch: the gradients of some hundred words as products of small matrices.

Mikolov et al. 2013a, b; windows as minibatches with shared negatives: Ji et al. 2016. A step reads the tables of the
previous step and adds up the changes of all its words.

Letters: n blocks of b adjacent words in a step, R = b + 2 W places in the windows of a block, T targets of a word
(itself and K negatives, or the inner nodes of its path), D padded width, V words.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dragoman.model.word_vectors.draws import NO_RECORD, Draws
from dragoman.model.word_vectors.huffman import HuffmanTree
from dragoman.model.word_vectors.word2vec import Word2VecConfig

BLOCK = 8  # words whose windows share one product: more waste work, fewer make it too small to be fast


@dataclass(frozen=True)
class Targets:
    """The targets of a step's words: rows of the output table."""

    rows: Tensor  # (n, b, T) int64
    labels: Tensor  # (n, b, T) 1 for positive targets
    counted: Tensor  # (n, b, T) 0 at a negative that is the word itself, and after the end of a path


def negatives(words: Tensor, drawn: Tensor) -> Targets:
    """Returns the words (n, b) and their drawn negatives (n, b, K) as targets."""
    rows = torch.cat([words[..., None], drawn], -1)
    labels = torch.zeros(rows.shape, device=rows.device)
    labels[..., 0] = 1.0
    counted = (rows != words[..., None]).float()
    counted[..., 0] = 1.0
    return Targets(rows, labels, counted)


class Paths:
    """The Huffman tree: for every word the inner nodes from the root, and the branch at each."""

    def __init__(self, tree: HuffmanTree, device: torch.device) -> None:
        lengths = np.diff(tree.offsets)
        place = np.arange(tree.longest)  # (L,)
        at = np.where(place < lengths[:, None], tree.offsets[:-1, None] + place, 0)  # (V, L)
        self.nodes = torch.from_numpy(tree.nodes[at]).to(device)
        self.labels = torch.from_numpy(1 - tree.codes[at]).to(device)  # as in the original tool
        self.lengths = torch.from_numpy(lengths).to(device)  # (V,)
        self._places = torch.from_numpy(place).to(device)

    def targets(self, words: Tensor) -> Targets:
        """Returns the paths of the words (n, b)."""
        counted = self._places < self.lengths[words][..., None]
        return Targets(self.nodes[words].long(), self.labels[words].float(), counted.float())


def logistic(
    inputs: Tensor, pairs: Tensor, table: Tensor, targets: Targets, lr: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Trains each input (n, I, D) on the targets of the words that it is paired with (`pairs` (n, I, b), 1 or 0).

    Returns the summed loss -log s(+-x.y), and lr times minus its gradient with respect to the inputs (n, I, D) and to
    the targets' rows (n, b T, D).
    """
    y = rows_of(table, targets.rows.flatten(1))  # (n, b T, D)
    scores = torch.bmm(inputs, y.mT)  # (n, I, b T)
    weight = (pairs[..., None] * targets.counted[:, None]).flatten(2)
    labels = targets.labels.flatten(1)[:, None]
    away = torch.exp(-scores.abs())  # log(1 + e^x) in two parts that cannot overflow, faster than torch's own
    loss = ((scores.relu() - labels * scores + torch.log(1 + away)) * weight).sum()
    change = (labels - torch.sigmoid(scores)) * weight * lr
    return loss, torch.bmm(change, y), torch.bmm(change.mT, inputs)


def rows_of(table: Tensor, at: Tensor) -> Tensor:
    """Returns table[at] (..., D), four times as fast on a CPU."""
    return table.index_select(0, at.flatten()).view(*at.shape, -1)


def softmax(inputs: Tensor, pairs: Tensor, table: Tensor, words: Tensor, lr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Trains each input on all V words: the full softmax of small vocabularies. `table` (V, D); else as `logistic`.

    An input's distribution is the same for all of its pairs, so it is computed once: the third result is (V, D).
    """
    flat = inputs.flatten(0, 1)  # (n I, D)
    scores = flat @ table.mT  # (n I, V)
    target = torch.zeros_like(scores)
    at = words[:, None].expand(-1, inputs.shape[1], -1).flatten(0, 1)  # (n I, b)
    target.scatter_add_(1, at, pairs.flatten(0, 1))
    number = target.sum(1, keepdim=True)
    loss = (number[:, 0] * scores.logsumexp(1)).sum() - (target * scores).sum()
    change = (target - number * scores.softmax(1)) * lr
    return loss, (change @ table).view_as(inputs), change.mT @ flat


class Step:
    """The update of `tokens` words on one device: all shapes are fixed, and nothing is copied back to the CPU."""

    def __init__(self, config: Word2VecConfig, tables: tuple[Tensor, Tensor], paths: Paths | None, tokens: int) -> None:
        """`tables`: vectors (V, D) and contexts (V or inner nodes, D), changed in place."""
        self.config, self.tokens = config, tokens
        self.vectors, self.contexts = tables
        self.paths = paths
        device, window = self.vectors.device, config.window
        self.block = math.gcd(tokens, BLOCK)
        places = torch.arange(self.block + 2 * window, device=device)  # (R,)
        first = torch.arange(0, tokens, self.block, device=device)  # (n,)
        self._places = first[:, None] + places  # (n, R) of the windows, from the step's first word - W
        self._distance = (places[:, None] - window - places[: self.block]).abs()  # (R, b)
        self._itself = torch.eye(self.block, device=device)
        self.totals = torch.zeros(2, dtype=torch.float64, device=device)  # loss, predictions

    def __call__(self, draws: Draws, start: Tensor, lr: Tensor) -> None:
        """Trains on the kept words `start` (an integer) to `start` + tokens."""
        at = self._places + start  # (n, R)
        words_at = at[:, self.config.window : self.config.window + self.block]  # (n, b)
        run, words = draws.rows[at], draws.rows[words_at]
        near = self._near(draws, at, words_at)  # (n, R, b)
        x = rows_of(self.vectors, run)  # (n, R, D)
        if self.config.algorithm == "skipgram":
            loss, change, predictions = self._predict(x, near, draws, words, words_at, lr)
        else:
            number = near.sum(1, keepdim=True)  # (n, 1, b)
            share = near / number.clamp_min(1) if self.config.mean else near
            pairs = self._itself * (number > 0)  # (n, b, b)
            loss, change, predictions = self._predict(torch.bmm(share.mT, x), pairs, draws, words, words_at, lr)
            # the whole error goes to every word of the window, as in the original tool: a share of it ruins the vectors
            change = torch.bmm(near, change)
        self.vectors.index_add_(0, run.flatten(), change.flatten(0, 1))
        self.totals += torch.stack([loss, predictions])

    def _near(self, draws: Draws, at: Tensor, words_at: Tensor) -> Tensor:
        """Returns (n, R, b): 1 if the place is in the word's window, without the word itself and other records."""
        records = draws.records[words_at]  # (n, b)
        same = (draws.records[at][:, :, None] == records[:, None]) & (records != NO_RECORD)[:, None]
        inside = (self._distance <= draws.radius[words_at][:, None]) & (self._distance > 0)
        return (same & inside).float()

    def _predict(
        self, inputs: Tensor, pairs: Tensor, draws: Draws, words: Tensor, words_at: Tensor, lr: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Updates the contexts; returns the loss, the inputs' change and the number of pairs."""
        if self.config.output == "softmax":
            loss, change, all_rows = softmax(inputs, pairs, self.contexts, words, lr)
            self.contexts += all_rows
        else:
            targets = self.paths.targets(words) if self.paths else negatives(words, draws.negatives[words_at])
            loss, change, rows = logistic(inputs, pairs, self.contexts, targets, lr)
            self.contexts.index_add_(0, targets.rows.flatten(), rows.flatten(0, 1))
        return loss, change, pairs.sum()
