"""Time and memory of a layer against the sequence's length n: recurrent n d^2, self-attention n^2 d.

Table 1 of Vaswani et al. 2017. A batch has the same number of tokens whatever n, as in training, and its cost is
divided by its sequences. Both passes are timed. Memory is the part that the forward pass keeps for the backward pass,
without the weights.

Letters: B sequences, n their length, d width.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.model.layers.attention import SelfAttention
from dragoman.model.layers.linear_attention import LinearAttention
from dragoman.model.layers.recurrent import Recurrent
from dragoman.model.layers.state_space import StateSpace
from dragoman.pipelines.evaluation.comparison_settings import HEADS

TOKENS = 4096  # in a batch
STATES, CONVOLUTION = 16, 4  # of the state-space layer, as in conf/model
REPEATS = 3  # the fastest counts: other load only ever adds time


@dataclass
class LayerCost:
    """The cost of one layer over all lengths."""

    label: str
    recurrent: bool
    lengths: list[int]
    seconds: list[float]  # per sequence
    kept: list[float]  # bytes per sequence


def layer_costs(width: int, lengths: Sequence[int], device: torch.device, heads: int = HEADS) -> list[LayerCost]:
    """Returns the costs of each layer, all from d to d, in float32; softmax attention, which is the only one whose cost
    per token grows with n, comes last."""
    torch.manual_seed(1)
    layers: list[tuple[str, bool, nn.Module]] = [
        ("RNN", True, Recurrent("rnn_tanh", width, width, 1, 0.0)),
        ("LSTM", True, Recurrent("lstm", width, width, 1, 0.0)),
        ("linear attention", True, FromStart(LinearAttention(width, heads, 0.0))),
        ("state space", True, FromStart(StateSpace(width, STATES, CONVOLUTION))),
        ("self-attention", False, SelfAttention(width, heads, 0.0)),
    ]
    return [cost(label, recurrent, layer.to(device), width, lengths) for label, recurrent, layer in layers]


class FromStart(nn.Module):
    """A layer with a state, read from its initial one."""

    def __init__(self, layer: LinearAttention | StateSpace) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, n, d) -> (B, n, d) and the state after it."""
        found: tuple[Tensor, Tensor] = self.layer(x, self.layer.start(len(x), x.device))
        return found


def cost(label: str, recurrent: bool, layer: nn.Module, width: int, lengths: Sequence[int]) -> LayerCost:
    """Measures one layer, the longest sequences last."""
    device = next(layer.parameters()).device
    seconds, kept = [], []
    ordered = sorted(set(lengths))
    for length in ordered:
        batch = max(1, TOKENS // length)
        x = torch.randn(batch, length, width, device=device, requires_grad=True)
        kept.append(kept_bytes(layer, x) / batch)
        seconds.append(min(time_layer(layer, x) for _ in range(REPEATS)) / batch)
    return LayerCost(label, recurrent, ordered, seconds, kept)


def time_layer(layer: nn.Module, x: Tensor) -> float:
    """Returns the seconds for the batch, forward and backward."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    begin = time.perf_counter()
    torch.autograd.grad(layer(x)[0].sum(), [x, *layer.parameters()])
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return time.perf_counter() - begin


def kept_bytes(layer: nn.Module, x: Tensor) -> int:
    """Returns the bytes kept for the backward pass: each storage once, without weights and input."""
    known = {tensor.untyped_storage().data_ptr() for tensor in (x, *layer.parameters())}
    held: list[Tensor] = []  # holds every storage, so that none is freed and counted as another

    def keep(tensor: Tensor) -> Tensor:
        held.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(x)[0]
    sizes = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in held}
    del output
    return sum(size for pointer, size in sizes.items() if pointer not in known)


def theory(one: LayerCost, values: Sequence[float]) -> NDArray[np.float64]:
    """Fits the curve a n (recurrent) or a n + b n^2 (attention; a n for its four products, n d^2 each).

    a, b >= 0, by least squares of the relative error.
    """
    from scipy.optimize import nnls

    n = np.asarray(one.lengths, np.float64)
    columns = n[:, None] if one.recurrent else np.stack([n, n**2], 1)
    measured = np.asarray(values, np.float64)
    factors, _ = nnls(columns / measured[:, None], np.ones(len(n)))
    fitted: NDArray[np.float64] = columns @ factors
    return fitted


def crossing(first: LayerCost, second: LayerCost, what: str = "seconds") -> float | None:
    """Returns the length from which `first` costs more than `second`, interpolated on a log-log line.

    None if it costs more at all measured lengths or at none."""
    gaps = [math.log(a / b) for a, b in zip(getattr(first, what), getattr(second, what), strict=True)]
    for place in range(len(gaps) - 1, 0, -1):
        before, after = gaps[place - 1], gaps[place]
        if before <= 0 < after:
            low, high = math.log(first.lengths[place - 1]), math.log(first.lengths[place])
            return math.exp(low + (high - low) * -before / (after - before))
    return None
