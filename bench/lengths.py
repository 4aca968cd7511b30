"""Memory and time per token of one layer against the length, softmax attention beside layers with a fixed state.

    python -m bench lengths [--quick] [--longest N] [--picture FILE.png]

Memory is what the forward pass keeps for the backward pass, time that of both passes; width 128, one head,
float32. The figure is linear attention's memory per token at the longest length, the baseline softmax attention's.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.ticker import ScalarFormatter
from torch import Tensor, nn

from bench.result import Result
from dragoman.model.layers.attention import SelfAttention
from dragoman.model.layers.linear_attention import LinearAttention
from dragoman.model.layers.recurrent import Recurrent
from dragoman.model.layers.state_space import StateSpace
from dragoman.pipelines.tracking.plots import BLUE, GREEN, GREY, ORANGE, clean, panels

WIDTH, SHORTEST, LONGEST = 128, 512, 16_384
TOKENS = 4096  # in a batch, whatever the length of its B sequences
STATES, CONVOLUTION = 16, 4  # of the state-space layer, as in conf/model
REPEATS = 3  # the fastest counts: other load only ever adds time
COLOURS = (BLUE, GREEN, "#7a4fa3", GREY, ORANGE)


@dataclass
class LayerCost:
    """The cost of one layer over all lengths."""

    label: str
    lengths: list[int]
    seconds: list[float]  # per sequence
    kept: list[float]  # bytes per sequence


def run(quick: bool, args: list[str]) -> Result:
    """Lengths double from 512 on."""
    parser = argparse.ArgumentParser(prog="python -m bench lengths")
    parser.add_argument("--longest", type=int, default=1024 if quick else LONGEST)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args(args)
    lengths = [SHORTEST]
    while 2 * lengths[-1] <= options.longest:
        lengths.append(2 * lengths[-1])
    every = layer_costs(WIDTH, lengths, torch.device("cpu"), heads=1)
    print(f"{'KiB a token':<18}" + "".join(f"{n:>10,}" for n in lengths))
    for one in every:
        print(f"{one.label:<18}" + "".join(f"{value / 1024:10.2f}" for value in per_token(one, one.kept)))
    print(f"{'us a token':<18}" + "".join(f"{n:>10,}" for n in lengths))
    for one in every:
        print(f"{one.label:<18}" + "".join(f"{value * 1e6:10.2f}" for value in per_token(one, one.seconds)))
    if options.picture:
        draw(every, options.picture)
    kept = {one.label: per_token(one, one.kept)[-1] / 1024 for one in every}
    unit = f"KiB kept a token at {lengths[-1]:,} tokens, linear attention, softmax attention"
    return Result("lengths", kept["linear attention"], kept["self-attention"], unit, "baseline")


def per_token(one: LayerCost, values: list[float]) -> list[float]:
    """Returns the values per token."""
    return [value / n for value, n in zip(values, one.lengths, strict=True)]


def draw(every: list[LayerCost], path: Path) -> None:
    """Writes the picture of both costs per token."""
    figure, axes = panels(1, 2, (11.0, 4.4), f"One layer of width {WIDTH}, per token, against the length of the text")
    for axis, what, scale, unit in (
        (axes[0], "kept", 1 / 1024, "KiB kept for the backward pass, a token"),
        (axes[1], "seconds", 1e6, "microseconds forwards and backwards, a token"),
    ):
        for one, colour in zip(every, COLOURS, strict=True):
            values = [value * scale for value in per_token(one, getattr(one, what))]
            axis.plot(one.lengths, values, "o-", color=colour, label=one.label, ms=4)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(every[0].lengths, [f"{n:,}" for n in every[0].lengths], fontsize=8)
        axis.yaxis.set_major_formatter(ScalarFormatter())
        axis.set_xlabel("tokens of a text", fontsize=9)
        axis.set_ylabel(unit, fontsize=9)
        clean(axis)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(path)


def layer_costs(width: int, lengths: Sequence[int], device: torch.device, heads: int) -> list[LayerCost]:
    """Returns the costs of each layer, all from d to d, in float32; softmax attention, which is the only one whose cost
    per token grows with n, comes last."""
    torch.manual_seed(1)
    layers: list[tuple[str, nn.Module]] = [
        ("RNN", Recurrent("rnn_tanh", width, width, 1, 0.0)),
        ("LSTM", Recurrent("lstm", width, width, 1, 0.0)),
        ("linear attention", FromStart(LinearAttention(width, heads, 0.0))),
        ("state space", FromStart(StateSpace(width, STATES, CONVOLUTION))),
        ("self-attention", SelfAttention(width, heads, 0.0)),
    ]
    return [cost(label, layer.to(device), width, lengths) for label, layer in layers]


class FromStart(nn.Module):
    """A layer with a state, read from its initial one."""

    def __init__(self, layer: LinearAttention | StateSpace) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, n, d) -> (B, n, d) and the state after it."""
        found: tuple[Tensor, Tensor] = self.layer(x, self.layer.start(len(x), x.device))
        return found


def cost(label: str, layer: nn.Module, width: int, lengths: Sequence[int]) -> LayerCost:
    """Measures one layer, the longest sequences last."""
    device = next(layer.parameters()).device
    seconds, kept = [], []
    ordered = sorted(set(lengths))
    for length in ordered:
        batch = max(1, TOKENS // length)
        x = torch.randn(batch, length, width, device=device, requires_grad=True)
        kept.append(kept_bytes(layer, x) / batch)
        seconds.append(min(time_layer(layer, x) for _ in range(REPEATS)) / batch)
    return LayerCost(label, ordered, seconds, kept)


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
