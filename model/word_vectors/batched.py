"""word2vec in torch, some hundred words per step (model/word_vectors/step.py): the form for GPUs; a CPU runs it too.

512 kept words per step are as good as one at a time; 4,096 lose quality.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.word_vectors.draws import Sampler
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.step import Paths, Step
from dragoman.model.word_vectors.word2vec import Word2VecConfig, beginning

TOKENS = 512  # kept words per step


class BatchedWord2Vec:
    """A `Learner` over `Text`. Its tables are tensors on a GPU and arrays on a CPU."""

    tables: dict[str, Any]

    def __init__(
        self,
        config: Word2VecConfig,
        counts: NDArray[np.int64],
        seed: int,
        device: torch.device | str = "cpu",
        tokens: int = TOKENS,
    ) -> None:
        """`counts` (V,) of the training text, most frequent first; `seed` of the initial vectors."""
        keep, noise, tree, arrays = beginning(config, counts, seed)
        self.config = config
        self.device = torch.device(device)
        self.sampler = Sampler(config, keep, noise, self.device)
        tensors = {name: torch.from_numpy(table).to(self.device) for name, table in arrays.items()}
        self.tables = dict(arrays if self.device.type == "cpu" else tensors)
        paths = Paths(tree, self.device) if tree else None
        self.step = Step(config, (tensors["vectors"], tensors["contexts"]), paths, tokens)

    def train(self, segment: Text, lr: float, seed: int, threads: int) -> tuple[float, int]:
        """Makes one pass over `segment`; returns (summed loss, predictions). `threads`: torch's on a CPU, 0: unchanged.

        Skip-gram predicts each word from each word of its window, CBOW predicts each word once.
        """
        draws = self.sampler.draw(segment, seed, self.step.tokens + self.config.window)
        self.step.totals.zero_()
        with torch.no_grad(), torch_threads(threads):
            for start in range(0, draws.kept, self.step.tokens):
                self.step(draws, torch.tensor(start), torch.tensor(lr))
        loss, predictions = self.step.totals.tolist()
        return loss, int(predictions)

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """Returns unpadded copies: "vectors" (V, d), "contexts" (V, d), or (V - 1, d) with a Huffman tree."""
        tensors = {"vectors": self.step.vectors, "contexts": self.step.contexts}
        return {name: table[:, : self.config.width].cpu().numpy().copy() for name, table in tensors.items()}


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Makes torch use `count` threads on a CPU during the block; 0: as many as it has."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
