"""`python -m bench train --curve`: does the fast bf16 path learn what the plain fp32 loop learns?

Four runs of 2,000 steps of 1,024 tokens on the built-in sentences, from the same weights and batches: our bf16 path and
the plain fp32 loop, each with two seeds of its dropout masks. Two of a kind say how far apart runs lie by chance, which
is the measure for the kinds: our dropout draws its masks in another way, so that its curve can be equal to the plain
one's up to that noise only. Prints the mean training loss of every 200 steps, and as figures those of the last 200, the
mean of both seeds.

The learning rate is one that such small batches bear: at 0.005 the loss of either kind rises again before the end, and
what is compared is luck.
"""

from dataclasses import replace
from pathlib import Path
from statistics import fmean

from bench.result import Result
from bench.trainer import plain_paths, trainer
from dragoman.conf import compose
from dragoman.model.runs import journal, paths
from dragoman.model.settings import Precision
from dragoman.pipelines.config import Config
from dragoman.pipelines.shard import shard

TOKENS, BLOCK, VOCABULARY = 1024, 200, 1000
RATE, WARM_UP = 0.0015, 400
SEEDS = 1, 2


def loss_curve(folder: Path, quick: bool) -> Result:
    """ours: nll of the bf16 path; baseline: nll of the plain fp32 loop, both in nats a token, means of two seeds."""
    steps = 200 if quick else 2000
    overrides = ["corpus=everyday", "corpus.pairs=20000", f"tokenizer.vocabulary={VOCABULARY}", "cluster.backend=local"]
    shards = shard(compose.typed(Config, compose.values([f"paths.root={folder}", *overrides]))).directory
    ours = [curve(shards, folder / f"ours-{seed}", "bf16", steps, seed) for seed in SEEDS]
    with plain_paths():
        plain = [curve(shards, folder / f"plain-{seed}", "fp32", steps, seed) for seed in SEEDS]
    print("   steps   ours, seeds 1, 2  plain, seeds 1, 2  ours - plain  apart: ours  plain")
    block = min(BLOCK, steps // 2)
    for start in range(0, steps, block):
        (a, b), (c, d) = ([fmean(run[start : start + block]) for run in kind] for kind in (ours, plain))
        apart = f"{(a + b - c - d) / 2:+13.4f} {abs(a - b):12.4f} {abs(c - d):6.4f}"
        print(f"{start + block:8,} {a:9.4f} {b:8.4f} {c:10.4f} {d:7.4f} {apart}")
    last = [fmean(loss for run in kind for loss in run[-block:]) for kind in (ours, plain)]
    return Result("train-curve", last[0], last[1], "nats a token, last steps", "baseline")


def curve(shards: Path, run: Path, precision: Precision, steps: int, seed: int) -> list[float]:
    """The negative log-likelihood of every step; `seed` is that of the dropout masks."""
    with trainer(shards, run, precision, TOKENS) as made:
        optimizer = replace(made.config.optimizer, lr=RATE, warmup_steps=WARM_UP)
        made.config, made.seed = replace(made.config, max_steps=steps, optimizer=optimizer), seed
        made.run(lambda step, values: None)
    return [line["nll"] for line in journal.lines(run / paths.STEPS) if "batch" in line]
