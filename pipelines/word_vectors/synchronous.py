"""word2vec by autograd with sparse gradients, summed over the ranks at every step: the reference for the fast paths.

Two tables as nn.Embedding(sparse=True), a loss, SGD. In each step every rank computes the gradients of some words of
its segment and all ranks add up all of them. So the tables stay equal bit for bit, and N ranks of B words take the same
steps as one rank with N B words. It sends kilobytes per word where averaging (averaging.py) sends bytes: for
comparison, and for networks within one machine.

Letters: B words in a step, C = 2 W places around a word, T targets (itself and negatives, or the nodes of its path).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.batched import TOKENS, chance, first_tables, torch_threads
from dragoman.model.word_vectors.draws import NO_RECORD, Draws
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.step import Paths, Targets, negatives
from dragoman.model.word_vectors.word2vec import Word2VecConfig, check
from dragoman.pipelines.cluster.ranks import Ranks


class Windows:
    """The words of a step with their contexts and targets."""

    def __init__(self, config: Word2VecConfig, draws: Draws, paths: Paths | None, start: int, count: int) -> None:
        """Takes the kept words `start` to `start + count`."""
        window, device = config.window, draws.rows.device
        at = torch.arange(start, start + count, device=device) + window  # (B,)
        offsets = torch.cat([torch.arange(-window, 0, device=device), torch.arange(1, window + 1, device=device)])
        places = at[:, None] + offsets  # (B, C)
        words = draws.rows[at]
        self.around = draws.rows[places]
        self.near = (  # (B, C)
            (draws.records[places] == draws.records[at][:, None])
            & (draws.records[at] != NO_RECORD)[:, None]
            & (offsets.abs() <= draws.radius[at][:, None])
        ).float()
        self.targets: Targets = paths.targets(words) if paths else negatives(words, draws.negatives[at])


class Likelihood(nn.Module):
    """The two tables, and the summed loss of windows."""

    def __init__(self, config: Word2VecConfig, vectors: Tensor, contexts: Tensor) -> None:
        """Uses the memory of the tables (rows, D) and writes to it."""
        super().__init__()
        self.config = config
        self.vectors = nn.Embedding.from_pretrained(vectors, freeze=False, sparse=True)  # type: ignore[no-untyped-call]
        self.contexts = nn.Embedding.from_pretrained(contexts, freeze=False, sparse=True)  # type: ignore[no-untyped-call]

    def forward(self, windows: Windows) -> tuple[Tensor, Tensor]:
        """Returns (summed loss -log s(+-x.y), number of predictions)."""
        targets = windows.targets
        x, y = self.vectors(windows.around), self.contexts(targets.rows)  # (B, C, D), (B, T, D)
        pairs = windows.near  # (B, C)
        if self.config.algorithm == "cbow":
            number = pairs.sum(1, keepdim=True)  # (B, 1)
            total = (x * pairs[..., None]).sum(1)  # (B, D)
            if self.config.mean:  # the mean's value, but the whole gradient for every word, as in the original tool
                total = total + (total / number.clamp_min(1) - total).detach()
            x, pairs = total[:, None], (number > 0).float()  # (B, 1, D), (B, 1)
        scores = x @ y.mT  # (B, C or 1, T)
        weight = pairs[..., None] * targets.counted[:, None]
        losses = nn.functional.softplus(scores) - targets.labels[:, None] * scores
        return (losses * weight).sum(), pairs.sum()


class SynchronousWord2Vec:
    """A `Learner` over `Text` that all ranks call together, with an empty text if a rank has none left.

    Raises (constructor):
        UserError: invalid settings, or the full softmax, whose gradients are not sparse.
    """

    tables: dict[str, Any]

    def __init__(
        self, config: Word2VecConfig, counts: NDArray[np.int64], seed: int, ranks: Ranks, tokens: int | None = None
    ) -> None:
        """`tokens`: words of each rank per step; by default all ranks together take 512."""
        if config.output == "softmax":
            raise UserError("vectors.backend=ddp: model.output=softmax has no sparse gradients. Choices: numba, torch")
        check(config, len(counts))
        self.config, self.ranks = config, ranks
        self.tokens = tokens or max(1, TOKENS // ranks.world)
        self.sampler, self._paths = chance(config, counts, ranks.device)
        self.tables, tensors = first_tables(config, len(counts), seed, ranks.device)
        self._likelihood = Likelihood(config, tensors["vectors"], tensors["contexts"])
        self._optimizer = torch.optim.SGD(self._likelihood.parameters())
        self._sent = 0  # bytes sent by this rank

    def train(self, segment: Text, lr: float, seed: int, threads: int) -> tuple[float, int]:
        """Trains on this rank's segment of the round; returns its own (summed loss, predictions). All ranks call it."""
        return self.train_together([segment], lr, [seed], threads)

    def train_together(
        self, segments: Sequence[Text], lr: float, seeds: Sequence[int], threads: int
    ) -> tuple[float, int]:
        """Takes, on this rank, the steps that one rank for each segment would take."""
        margin = self.tokens + self.config.window
        drawn = [self.sampler.draw(one, seed, margin) for one, seed in zip(segments, seeds, strict=True)]
        longest = max(self.ranks.gather(max(draws.kept for draws in drawn)))
        totals = torch.zeros(2, dtype=torch.float64, device=self.ranks.device)
        with torch_threads(threads):
            for start in range(0, longest, self.tokens):
                for draws in drawn:
                    if start < draws.kept:
                        windows = Windows(self.config, draws, self._paths, start, self.tokens)
                        loss, predictions = self._likelihood(windows)
                        loss.backward()
                        totals += torch.stack([loss.detach(), predictions])
                self._update(lr)
        loss, predictions = totals.tolist()
        return loss, int(predictions)

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """Returns unpadded copies: "vectors" (V, d), "contexts" (V, d), or (V - 1, d) with a Huffman tree."""
        tables = {"vectors": self._likelihood.vectors, "contexts": self._likelihood.contexts}
        return {
            name: table.weight.detach()[:, : self.config.width].cpu().numpy().copy() for name, table in tables.items()
        }

    def sent_since(self) -> int:
        """Returns the bytes that this rank has sent since the last call."""
        sent, self._sent = self._sent, 0
        return sent

    def _update(self, lr: float) -> None:
        for table in (self._likelihood.vectors.weight, self._likelihood.contexts.weight):
            gradient = table.grad
            if gradient is None:  # this rank's segment is finished
                none = torch.zeros((1, 0), dtype=torch.int64, device=table.device)
                gradient = torch.sparse_coo_tensor(none, table.new_zeros(0, table.shape[1]), table.shape)
            table.grad = self._sum_ranks(gradient.coalesce())
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()
        self._optimizer.zero_grad()

    def _sum_ranks(self, gradient: Tensor) -> Tensor:
        """Returns the sum over all ranks of a coalesced sparse gradient; every rank adds in the same order.

        Gathers rows, padded to the rank with the most: NCCL does not sum sparse tensors.
        """
        if self.ranks.world == 1:
            return gradient
        rows, values = gradient.indices()[0], gradient.values()  # (n,), (n, D)
        numbers = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(self.ranks.world)]
        dist.all_gather(numbers, torch.tensor([len(rows)], device=rows.device))
        counts = [int(number) for number in numbers]
        lacking = max(counts) - len(rows)
        every_row, every_value = (
            self._gather_ranks(nn.functional.pad(part, pad), counts)
            for part, pad in ((rows, (0, lacking)), (values, (0, 0, 0, lacking)))
        )
        return torch.sparse_coo_tensor(every_row[None], every_value, gradient.shape).coalesce()

    def _gather_ranks(self, part: Tensor, counts: Sequence[int]) -> Tensor:
        """Returns the first `counts[rank]` rows of each rank's `part`, one after the other."""
        parts = [torch.empty_like(part) for _ in counts]
        dist.all_gather(parts, part.contiguous())
        self._sent += part.numel() * part.element_size() * (len(counts) - 1)
        return torch.cat([one[:count] for one, count in zip(parts, counts, strict=True)])
