"""Loss of tiny Shakespeare's validation part after equal minutes of a core, a language model of each kind.

    python -m bench lm_minutes [--quick] [--root FOLDER] [--minutes N] [--seeds N] [--picture FILE.png] [--runs FOLDER]

All have 0.7M to 0.8M parameters, but 1.5M where the LSTM attends to its past, and read 2,048 characters a step. A trial
counts the seconds of a step as the processor's time of this process, whatever else runs on the machine; the minutes
divided by them are the steps of the network. Each takes the better of two learning rates by the validation loss of a
training of an eighth of the minutes. Evaluations are not counted. The figure is the selective state space's bits per
character, the baseline that of the Transformer.
"""

import argparse
import math
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from bench.result import Result
from dragoman.conf import compose
from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.networks.architectures import architecture
from dragoman.model.runs import paths
from dragoman.pipelines import train
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.comparison.measures import TrainingRecord, training_record
from dragoman.pipelines.config import Config
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks.language import Texts
from dragoman.pipelines.tracking.plots import BLUE, GREEN, GREY, ORANGE, clean, panels
from dragoman.pipelines.training.loop import Trainer

ROOT = Path("../shared/corpora/charlm")
RATES = (0.002, 0.006)
SHARE = 1 / 8  # of the minutes, for each rate
TRIAL, POINTS = 16, 4  # steps; validations on a curve
RECURRENT = ["model.embedding=64", "model.width=384", "model.layers=1", "model.tie=false"]
NETWORKS = {
    "gpt_tiny": ["model.positions=rotary", "model.max_positions=128"],
    "rnnlm_lstm": RECURRENT,
    "rnnlm_attention": RECURRENT,
    "statelm_linear": ["model.max_positions=128"],
    "statelm_selective": [],
}
COLOURS = (BLUE, GREY, GREEN, ORANGE, "#7a4fa3")
COMMON = [
    "corpus=tinyshakespeare", "pair=en", "tokenizer=characters", "model.dropout=0", "loader.batch_tokens=2048",
    "loader.context_length=128", "loader.lanes=1", "train.precision=fp32", "train.loss.label_smoothing=0",
    "train.optimizer.kind=adamw", "train.optimizer.betas=[0.9,0.95]", "train.optimizer.weight_decay=0.1",
    "train.optimizer.schedule=cosine", "train.average_last=1", "evaluate.split=valid", "evaluate.samples=0",
    "cluster.backend=local", "registry.register=false", "tracking.offline=true", "tracking.system_metrics=false",
]  # fmt: skip


@dataclass
class Learned:
    """One network after its minutes."""

    rate: float
    steps: int
    parameters: int
    records: list[TrainingRecord]  # one per seed
    bits: list[float]  # per character of the validation text, with overlapping context


def run(quick: bool, args: list[str]) -> Result:
    """`--quick`: half a second of training each, which says only that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench lm_minutes")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--minutes", type=float, default=0.01 if quick else 1.5)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--runs", type=Path, help="a folder that keeps shards and runs")
    options = parser.parse_args(args)
    if not options.root.is_dir():
        raise SystemExit(f"bench lm_minutes: --root={options.root}: there is no such folder")
    torch.set_num_threads(1)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        home = [f"paths.root={options.runs or folder}", f"corpus.root={options.root.resolve()}"]
        shard(typed(home, "gpt_tiny"))
        for name in NETWORKS:
            found[name] = learn(home, name, options.minutes, options.seeds)
            print(row(name, found[name]), flush=True)
    if options.picture:
        draw(found, options.minutes, options.picture)
    ours, other = (statistics.mean(found[name].bits) for name in ("statelm_selective", "gpt_tiny"))
    return Result("lm_minutes", ours, other, "bits per character, selective state space, Transformer", "baseline")


def typed(home: list[str], name: str, *more: str) -> Config:
    return compose.typed(Config, compose.values([*COMMON, f"model={name}", *NETWORKS[name], *home, *more]))


def learn(home: list[str], name: str, minutes: float, seeds: int) -> Learned:
    """Chooses the rate, then trains every seed for its minutes."""
    config = typed(home, name)
    parameters, seconds, _ = short_run(config, TRIAL)
    few, steps = (max(1, int(60 * one / seconds / POINTS)) * POINTS for one in (SHARE * minutes, minutes))
    losses = {rate: short_run(typed(home, name, *schedule(few, rate)), few, evaluate=True)[2] for rate in RATES}
    rate = min(losses, key=lambda one: losses[one])
    tried = ", ".join(f"{one:g} {loss:.3f}" for one, loss in losses.items())
    print(f"{name}: {1000 * seconds:.0f} ms a step; after {few} steps by rate, nats: {tried}", flush=True)
    done = [train_run(home, name, steps, rate, seed) for seed in range(1, seeds + 1)]
    return Learned(rate, steps, parameters, *map(list, zip(*done, strict=True)))


def schedule(steps: int, rate: float) -> list[str]:
    return [
        f"train.max_steps={steps}", f"train.optimizer.lr={rate}", f"train.optimizer.warmup_steps={max(1, steps // 10)}",
    ]  # fmt: skip


def short_run(config: Config, steps: int, evaluate: bool = False) -> tuple[int, float, float]:
    """Trains without a record: parameters, seconds of the processor a step after a quarter of them, validation loss."""
    texts = Texts(config)
    network, loader, ranks = texts.network, texts.loader(), Ranks(0, 1, torch.device("cpu"))
    held_out = texts.held_out(ranks) if evaluate else list
    never = replace(config.train, evaluate_every=10**9, checkpoint_every=10**9, log_every=10**9, schedule_steps=steps)
    loss = architecture(config.model["architecture"]).loss
    found, begun = {"valid_loss": math.nan}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        made = Trainer(network, loss, loader, 1, never, Path(folder), ranks, 1, list)
        try:
            for end in (steps // 4, steps):
                begun = time.process_time()
                made.config = replace(never, max_steps=end)
                made.run(lambda step, values: None)
            spent = time.process_time() - begun
            made.held_out = held_out
            found = made.evaluate() if evaluate else found
        finally:
            loader.close()
    return network.parameter_count(), spent / (steps - steps // 4), found["valid_loss"]


def train_run(home: list[str], name: str, steps: int, rate: float, seed: int) -> tuple[TrainingRecord, float]:
    """A run as `dragoman train` makes it; its curve, and the validation text's bits per character in the end."""
    every = steps // POINTS
    config = typed(
        home, name, *schedule(every * POINTS, rate), f"name={name}-seed{seed}", f"seed={seed}",
        f"train.evaluate_every={every}", f"train.checkpoint_every={steps}",
    )  # fmt: skip
    train.task(config)
    record = training_record(config.run_dir)
    assert record is not None
    scores = load_text_bundle(config.run_dir / paths.BUNDLE).facts["scores"]["valid"]
    return record, float(scores["bits_per_character"])


def row(name: str, one: Learned) -> str:
    losses = ", ".join(f"{record.validation[-1][2]:.4f}" for record in one.records)
    bits = ", ".join(f"{value:.4f}" for value in one.bits)
    return (
        f"{name:<18}{one.parameters / 1e6:6.2f}M parameters, rate {one.rate:g}, {one.steps:,} steps: "
        f"validation loss {losses} nats; {bits} bits per character"
    )


def draw(found: dict[str, Learned], minutes: float, path: Path) -> None:
    """Writes the curves of the first seeds, against steps and against minutes."""
    figure, axes = panels(1, 2, (10.0, 4.2), f"Tiny Shakespeare, {minutes:g} minutes of a core each")
    for axis, unit in zip(axes, ("steps of 2,048 characters", "minutes of a core, without evaluations"), strict=True):
        for (name, one), colour in zip(found.items(), COLOURS, strict=True):
            last = one.records[0].tokens
            xs = [
                tokens / last * (one.steps if axis is axes[0] else minutes)
                for tokens, _, _ in one.records[0].validation
            ]
            axis.plot(xs, [point[2] for point in one.records[0].validation], "o-", color=colour, label=name, ms=4)
        axis.set_xlabel(unit, fontsize=9)
        axis.set_ylabel("validation loss, nats per character", fontsize=9)
        clean(axis)
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path)
