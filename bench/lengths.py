"""Memory and time per token of one layer against the length, softmax attention beside layers with a fixed state.

    python -m bench lengths [--quick] [--longest N] [--picture FILE.png]

Memory is what the forward pass keeps for the backward pass, time that of both passes; width 128, one head,
float32. The figure is linear attention's memory per token at the longest length, the baseline softmax attention's.
"""

import argparse
from pathlib import Path

import torch
from matplotlib.ticker import ScalarFormatter

from bench.result import Result
from dragoman.pipelines.comparison.costs import LayerCost, layer_costs
from dragoman.pipelines.tracking.plots import BLUE, GREEN, GREY, ORANGE, clean, panels

WIDTH, SHORTEST, LONGEST = 128, 512, 16_384
COLOURS = (BLUE, GREEN, "#7a4fa3", GREY, ORANGE)


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
