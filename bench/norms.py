"""BatchNorm against LayerNorm: curves of a small Transformer with each, and what the batch does to a text's loss.

    python -m bench norms [--quick] [--steps N] [--picture FILE.png]

A language model reads windows of the phrasebook's English, a masked model whole sentences, which are padded. Each is
trained twice with the same seed, batches, rate and steps. Then the trained weights score the same validation texts in
batches of different company. The figure is the masked model's validation loss with BatchNorm, the baseline that with
LayerNorm.
"""

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from bench.result import Result
from dragoman.conf import compose
from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.layers.transformer_layers import BatchNorm
from dragoman.model.networks.language_network import LanguageNetwork, language_loss
from dragoman.model.networks.network import Network
from dragoman.model.runs import journal, paths
from dragoman.model.settings import LossConfig
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD
from dragoman.pipelines import train
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks.language import Texts
from dragoman.pipelines.tracking.plots import BLUE, ORANGE, Points, clean, panels

NORMS: tuple[Literal["layer", "batch"], ...] = ("layer", "batch")
COLOURS = {"layer": BLUE, "batch": ORANGE}
NETWORKS = {
    "language": ["model=gpt_tiny", "model.positions=rotary", "loader.context_length=128"],
    "masked": ["model=bert_tiny", "model.norm=pre"],
}
COMMON = [
    "corpus.pairs=8000", "model.width=64", "model.feed_forward=256", "loader.side=source", "loader.batch_tokens=2048",
    "loader.lanes=1", "train.precision=fp32", "train.loss.label_smoothing=0", "train.optimizer.kind=adamw",
    "train.optimizer.lr=0.002", "train.optimizer.weight_decay=0.1", "train.optimizer.schedule=cosine",
    "train.average_last=1", "evaluate.split=valid", "evaluate.samples=0", "evaluate.sentences=20",
    "cluster.backend=local", "registry.register=false", "tracking.offline=true", "tracking.system_metrics=false",
]  # fmt: skip
TEXTS, ROWS, PADDED, POINTS = 256, 16, 120, 10  # texts scored; in a batch; tokens of a long neighbour; validations
Row = tuple[Tensor, Tensor]  # inputs and targets (T,)


@dataclass
class Learned:
    """One network after its training."""

    training: Points  # (step, nats per token), by the statistics of each batch
    validation: Points  # by the running ones
    company: dict[str, float]  # the same texts' nats per token, by what the statistics are of


def run(quick: bool, args: list[str]) -> Result:
    """`--quick`: a few steps of training each, which say only that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench norms")
    parser.add_argument("--steps", type=int, default=POINTS if quick else 300)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args(args)
    found: dict[str, dict[str, Learned]] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = [f"paths.root={folder}"]
        shard(typed("language", home))
        for name in NETWORKS:
            found[name] = {norm: learn(name, norm, home, options.steps) for norm in NORMS}
            print(table(name, found[name]), flush=True)
    if options.picture:
        draw(found, options.picture)
    ours, other = (found["masked"][norm].validation[-1][1] for norm in ("batch", "layer"))
    return Result("norms", ours, other, "validation loss of the masked model, BatchNorm, LayerNorm", "baseline")


def typed(name: str, words: Sequence[str]) -> Config:
    return compose.typed(Config, compose.values([*COMMON, *NETWORKS[name], *words]))


def learn(name: str, norm: str, home: Sequence[str], steps: int) -> Learned:
    """Trains as `dragoman train` does, and scores validation texts with the last weights."""
    every = max(1, steps // POINTS)
    config = typed(
        name,
        [
            *home, f"name={name}-{norm}", f"model.norm_kind={norm}", f"train.max_steps={steps}",
            f"train.optimizer.warmup_steps={max(1, steps // 10)}", f"train.evaluate_every={every}",
            f"train.checkpoint_every={steps}",
        ],
    )  # fmt: skip
    train.task(config)
    lines = list(journal.lines(config.run_dir / paths.STEPS))
    bundle = load_text_bundle(config.run_dir / paths.BUNDLE)
    assert isinstance(bundle.network, Network)
    held_out = Texts(config).held_out(Ranks(0, 1, torch.device("cpu")))
    return Learned(
        [(line["step"], line["nll"]) for line in lines if "nll" in line],
        [(line["step"], line["valid_loss"]) for line in lines if "valid_loss" in line],
        by_company(bundle.network, rows_of(held_out(), TEXTS)),
    )


def rows_of(batches: Iterable[TextBatch], count: int) -> list[Row]:
    """Returns `count` texts without padding, evenly from all lengths."""
    rows = [
        (inputs[inputs != PAD], targets[inputs != PAD])
        for batch in batches
        for inputs, targets in zip(batch.inputs, batch.targets, strict=True)
    ]
    return rows[:: max(1, len(rows) // count)][:count]


def by_company(network: Network, rows: Sequence[Row]) -> dict[str, float]:
    """Returns the loss of the same texts by what a normalisation's statistics are of; LayerNorm does not notice."""
    mixed = [rows[place] for place in torch.randperm(len(rows), generator=torch.Generator().manual_seed(1)).tolist()]
    found = {"running statistics": score(network, rows, ROWS)}
    use_batch_statistics(network)
    found[f"batches of {ROWS} texts of like length"] = score(network, rows, ROWS)
    found[f"batches of {ROWS} texts of any length"] = score(network, mixed, ROWS)
    found[f"batches of {ROWS}, padded to {PADDED + 8} tokens"] = score(network, rows, ROWS, PADDED + 8)
    found |= {f"batches of {size}": score(network, rows, size) for size in (4, 2, 1)}
    if isinstance(network, LanguageNetwork):
        found["earlier half, by another later half: change"] = change_of_the_past(network, rows)
    return found


def use_batch_statistics(network: Network) -> None:
    """Makes BatchNorm take the mean and variance of each batch, as in training, and keep its running ones."""
    for layer in network.modules():
        if isinstance(layer, BatchNorm):
            layer.momentum = 0.0
            layer.train()


def batch_of(rows: Sequence[Row], width: int = 0) -> TextBatch:
    """Pads the texts to the longest of them, or to `width`."""
    width = max(width, *(len(inputs) for inputs, _ in rows), 0)
    inputs, targets = (torch.stack([pad(row[side], width) for row in rows]) for side in (0, 1))
    return TextBatch(inputs, targets, int((targets != PAD).sum()), 0, torch.arange(len(rows)).numpy())


def pad(row: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(row, (0, width - len(row)), value=PAD)


def score(network: Network, rows: Sequence[Row], size: int, width: int = 0) -> float:
    """Returns nats per predicted token; `size` texts are read together."""
    batches = [batch_of(rows[first : first + size], width) for first in range(0, len(rows), size)]
    with torch.no_grad():
        total = sum(float(language_loss(network, batch, LossConfig(0.0))[1]) for batch in batches)
    return total / sum(batch.items for batch in batches)


def change_of_the_past(network: LanguageNetwork, rows: Sequence[Row]) -> float:
    """Returns by how many nats a text's first half changes, on average, when its second half is that of another."""
    sums = []
    for (inputs, targets), (others, _) in zip(rows, [*rows[1:], rows[0]], strict=True):
        half = len(inputs) // 2
        targets = torch.where(torch.arange(len(inputs)) < half, targets, PAD)
        texts = inputs, torch.cat([inputs[:half], others[half : len(inputs)]])
        own, other = (score(network, [(text, targets[: len(text)])], 1) for text in texts)
        sums.append(abs(own - other))
    return sum(sums) / len(sums)


def table(name: str, found: dict[str, Learned]) -> str:
    """Returns the losses, a line for each company."""
    lines = [f"{name} model, nats a token{'':<30}" + "".join(f"{norm + 'norm':>12}" for norm in NORMS)]
    ends = {
        "training, mean of the last tenth": [mean_of_last(found[norm].training) for norm in NORMS],
        "validation": [found[norm].validation[-1][1] for norm in NORMS],
    }
    companies = {key: [found[norm].company[key] for norm in NORMS] for key in found["layer"].company}
    for key, values in (ends | companies).items():
        lines.append(f"  {key:<50}" + "".join(f"{value:12.4f}" for value in values))
    return "\n".join(lines)


def mean_of_last(points: Points) -> float:
    last = [value for _, value in points[-max(1, len(points) // 10) :]]
    return sum(last) / len(last)


def draw(found: dict[str, dict[str, Learned]], path: Path) -> None:
    """Writes a panel per network: training pale and thin, validation with points."""
    figure, axes = panels(1, len(found), (5.5 * len(found), 4.4), "The same Transformer with LayerNorm and BatchNorm")
    for axis, (name, every) in zip(axes, found.items(), strict=True):
        for norm, one in every.items():
            colour, label = COLOURS[norm], f"{norm.capitalize()}Norm"
            axis.plot(*zip(*one.training, strict=True), color=colour, lw=0.9, alpha=0.45, label=f"{label}, training")
            axis.plot(*zip(*one.validation, strict=True), "o-", color=colour, ms=4, label=f"{label}, validation")
        axis.set_title(f"{name} model", fontsize=10, loc="left")
        axis.set_xlabel("steps of 2,048 tokens", fontsize=9)
        axis.set_ylabel("loss, nats per token", fontsize=9)
        clean(axis)
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path)
