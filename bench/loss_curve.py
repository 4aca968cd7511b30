"""`python -m bench train --curve`: does the fast bf16 path learn what the plain fp32 loop learns?

Both train 2,000 steps of 1,024 tokens on the phrasebook from the same weights and batches (dropout draws its masks in
another way, so the curves are equal up to its noise). Prints the mean training loss of every 200 steps side by side,
and as the figures the means of the last 200.
"""

from dataclasses import replace
from pathlib import Path

from bench.result import Result
from bench.train import plain_paths, trainer
from conf import door
from model import device
from pipelines import journal
from pipelines.config import Config
from pipelines.shard import shard

TOKENS, BLOCK = 1024, 200


def loss_curve(folder: Path, quick: bool) -> Result:
    """ours: nll of the bf16 path; peer: nll of the plain fp32 loop, both in nats a token."""
    steps = 200 if quick else 2000
    overrides = [f"paths.root={folder}", "corpus.pairs=20000", "tokenizer.vocabulary=10000", "cluster.backend=local"]
    shards = shard(door.typed(Config, door.compose(overrides))).directory
    ours = curve(shards, folder / "ours", "bf16", steps)
    with plain_paths():
        plain = curve(shards, folder / "plain", "fp32", steps)
    print("   steps    ours   plain  difference")
    block = min(BLOCK, steps // 2)
    for start in range(0, steps, block):
        mine, theirs = (sum(losses[start : start + block]) / block for losses in (ours, plain))
        print(f"{start + block:8,} {mine:7.4f} {theirs:7.4f} {mine - theirs:+11.4f}")
    return Result("train-curve", sum(ours[-block:]) / block, sum(plain[-block:]) / block, "nats a token, last steps")


def curve(shards: Path, run: Path, precision: device.Precision, steps: int) -> list[float]:
    """The negative log-likelihood of every step."""
    with trainer(shards, run, precision, TOKENS) as made:
        made.config = replace(made.config, max_steps=steps)
        made.run(lambda step, values: None)
    return [line["nll"] for line in journal.lines(run / journal.NAME) if "batch" in line]
