"""English into German, French and Czech: BLEU of one network for all three against a network for each.

    python -m bench multilingual --root MULTI30K [--quick] [--steps N]

All trainings are experiment=multi30k with another number of steps; a step has the same number of tokens in each, and so
takes the same time. A network for each language trains N steps. One network for all trains N steps, as long as each of
them, and another one 3 N steps, as long as all three together. The figure is the mean BLEU of the three test sets.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.result import Result
from dragoman.conf import compose
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.translation import evaluate_bundle
from dragoman.pipelines.shard import shard

TARGETS = ("de", "fr", "cs")
SPLITS = ("valid", "test")


def run(quick: bool, args: list[str]) -> Result:
    """One network of as many minutes as each of the three; --quick trains for a few steps and shows that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench multilingual")
    parser.add_argument("--root", type=Path, required=True, help="the folder of Multi30k")
    parser.add_argument("--steps", type=int, default=4 if quick else 800)
    options = parser.parse_args(args)
    parts = ", ".join(f"{{name: {to}, pair: en-{to}, tags: ['<2{to}>']}}" for to in TARGETS)
    mixed = ["pair=en-mul", f"corpus.parts=[{parts}]"]
    with tempfile.TemporaryDirectory() as name:
        base = [f"corpus.root={options.root}", f"paths.root={name}"]
        each = {to: measure([*base, f"pair=en-{to}", f"name={to}"], options.steps)[to] for to in TARGETS}
        one = measure([*base, *mixed, "name=one"], options.steps)
        longer = measure([*base, *mixed, "name=longer"], len(TARGETS) * options.steps)
    for split in SPLITS:
        found = {"each by itself": each, "one network": one, "one network, 3 N steps": longer}
        for who, scores in found.items():
            told = ", ".join(f"{to} {scores[to][split]:.2f}" for to in TARGETS)
            print(f"{split:>5} {who:<23} mean {mean(scores, split):.2f}: {told}")
    return Result("multilingual", mean(one, "test"), mean(each, "test"), "BLEU, mean of three languages", "baseline")


def measure(words: Sequence[str], steps: int) -> dict[str, dict[str, float]]:
    """Shards, trains, and returns target language -> split -> BLEU."""
    every = max(1, steps // 10)
    values = compose.values(
        [
            "experiment=multi30k", f"train.max_steps={steps}", f"train.evaluate_every={5 * every}",
            f"train.checkpoint_every={every}", "train.average_last=2", "train.bleu_every=0",
            f"train.optimizer.warmup_steps={every}", "cluster.backend=local", "registry.register=false",
            "evaluate.split=valid", "tracking.offline=true", "tracking.system_metrics=false", *words,
        ]
    )  # fmt: skip
    config: Config = compose.typed(Config, values)
    shard(config)
    began = time.monotonic()
    train.task(config)
    print(f"{config.name}: {steps:,} steps in {(time.monotonic() - began) / 60:.1f} minutes, with its release")
    found: dict[str, dict[str, float]] = {to: {} for to in TARGETS}
    for split in SPLITS:
        measured = evaluate_bundle(config.run_dir / "bundle", config.shard_dir, split)
        parts = measured.parts or {config.languages[1]: measured.scores}
        for to, scores in parts.items():
            found[to][split] = scores.bleu
    return found


def mean(scores: dict[str, dict[str, float]], split: str) -> float:
    """The mean BLEU of the three languages."""
    return statistics.mean(scores[to][split] for to in TARGETS)
