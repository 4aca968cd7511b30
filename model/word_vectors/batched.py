"""word2vec in torch, some hundred words per step (model/word_vectors/step.py): for GPUs, but CPUs run it too.

512 kept words per step are as good as one at a time; 4,096 lose quality. On a GPU one step is recorded as a CUDA graph
and replayed. Its shapes never change: the missing words of an incomplete last step belong to no record. Or the Triton
kernel (triton_kernel.py) runs the whole segment.
"""

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.draws import NO_RECORD, Draws, Sampler
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.step import Paths, Step
from dragoman.model.word_vectors.word2vec import Word2VecConfig, beginning, check_drawn

Path = Literal["steps", "graph", "triton"]
TOKENS = 512  # kept words per step


class BatchedWord2Vec:
    """A `Learner` over `Text`. Its tables are tensors on a GPU and arrays on a CPU.

    The constructor raises UserError: invalid settings, or a path that the device or the configuration lacks.
    """

    tables: dict[str, Any]

    def __init__(
        self,
        config: Word2VecConfig,
        counts: NDArray[np.int64],
        seed: int,
        device: torch.device | str = "cpu",
        path: Path | None = None,
        tokens: int = TOKENS,
    ) -> None:
        """`counts` (V,); `path`: "steps" (the default on a CPU), "graph" (the default on a GPU) or "triton"."""
        check_drawn(config)
        keep, noise, tree, arrays = beginning(config, counts, seed)
        self.config = config
        self.device = torch.device(device)
        self.path = choose_path(path, self.device, config)
        self.sampler = Sampler(config, keep, noise, self.device)
        tensors = {name: torch.from_numpy(table).to(self.device) for name, table in arrays.items()}
        self.tables = dict(arrays if self.device.type == "cpu" else tensors)
        paths = Paths(tree, self.device) if tree else None
        self.step = Step(config, (tensors["vectors"], tensors["contexts"]), paths, tokens)
        self._graph = Graph(self.step) if self.path == "graph" else None

    def train(self, segment: Text, lr: float, seed: int, threads: int) -> tuple[float, int]:
        """Makes one pass over `segment`; returns (summed loss, predictions). `threads`: torch's on a CPU, 0: unchanged.

        Skip-gram predicts each word from each word of its window, CBOW predicts each word once.
        """
        draws = self.sampler.draw(segment, seed, self.step.tokens + self.config.window)
        self.step.totals.zero_()
        with torch.no_grad(), torch_threads(threads):
            if self.path == "triton":
                from dragoman.model.word_vectors.triton_kernel import learn

                learn(self.step, draws, lr)
            elif self._graph:
                self._graph.replay(draws, lr)
            else:
                for start in range(0, draws.kept, self.step.tokens):
                    self.step(draws, torch.tensor(start), torch.tensor(lr))
        loss, predictions = self.step.totals.tolist()
        return loss, int(predictions)

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """Returns unpadded copies: "vectors" (V, d), "contexts" (V, d), or (V - 1, d) with a Huffman tree."""
        tensors = {"vectors": self.step.vectors, "contexts": self.step.contexts}
        return {name: table[:, : self.config.width].cpu().numpy().copy() for name, table in tensors.items()}


def choose_path(path: Path | None, device: torch.device, config: Word2VecConfig) -> Path:
    """Returns the path to take; by default the one that suits the device."""
    if path is None:
        return "graph" if device.type == "cuda" else "steps"
    if path != "steps" and device.type != "cuda":
        raise UserError(
            f"word2vec's torch path {path!r} needs a GPU (vectors.backend=triton with cluster.device=cuda). "
            f"Choices on a CPU: vectors.backend=torch"
        )
    if path == "triton" and config.output == "softmax":
        raise UserError("word2vec: model.output='softmax' has no Triton kernel. Choices: steps, graph")
    if path == "triton" and importlib.util.find_spec("triton") is None:
        raise UserError("word2vec: the package triton is not installed (torch's builds for GPUs bring it along)")
    return path


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Makes torch use `count` threads on a CPU during the block; 0: as many as it has."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Graph:
    """One step recorded as a CUDA graph with its own buffers; segments are copied into them and replayed."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._buffers: Draws | None = None
        device = step.vectors.device
        self._start = torch.zeros((), dtype=torch.int64, device=device)
        self._lr = torch.zeros((), device=device)

    def replay(self, draws: Draws, lr: float) -> None:
        """Trains on all kept words of `draws`."""
        if self._buffers is None or len(self._buffers.rows) < len(draws.rows):
            self._record(draws)
        assert self._buffers is not None
        size = len(draws.rows)
        for name in ("rows", "records", "radius", "negatives"):
            getattr(self._buffers, name)[:size].copy_(getattr(draws, name))
        self._buffers.records[size:].fill_(NO_RECORD)
        self._start.zero_()
        self._lr.fill_(lr)
        for _ in range(0, draws.kept, self._step.tokens):
            self._graph.replay()

    def _record(self, draws: Draws) -> None:
        """Records a step with buffers for segments up to a quarter longer than this one."""
        size = len(draws.rows) + len(draws.rows) // 4
        rows = draws.rows.new_zeros(size)
        records, radius = torch.full_like(rows, NO_RECORD), torch.ones_like(rows)
        self._buffers = Draws(rows, records, radius, draws.negatives.new_zeros(size, draws.negatives.shape[1]), 0)
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries initialise in the first steps; no word is in a record here
            for _ in range(3):
                self._step(self._buffers, self._start, self._lr)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._step(self._buffers, self._start, self._lr)
            self._start += self._step.tokens
