"""`python -m bench train --curve`: does the fast bf16 path learn what the plain fp32 loop learns?

Three runs of 2,000 steps of 1,024 tokens on the phrasebook, from the same weights and batches: our bf16 path, the plain
fp32 loop, and the plain loop once more with other dropout masks. The last says how far apart two runs lie by chance,
which is the measure for the first: our dropout draws its masks in another way, so that its curve can be equal to the
plain one's up to that noise only. Prints the mean training loss of every 200 steps, and as figures those of the last
200.

The learning rate is one that such small batches bear: at 0.005 the loss of either kind rises again before the end, and
what is compared is luck.
"""

from dataclasses import replace
from pathlib import Path

from bench.result import Result
from bench.trainer import plain_paths, trainer
from conf import compose
from model.settings import Precision
from pipelines.config import Config
from pipelines.shard import shard
from pipelines.training import journal

TOKENS, BLOCK, VOCABULARY = 1024, 200, 1000
RATE, WARM_UP = 0.0015, 400


def loss_curve(folder: Path, quick: bool) -> Result:
    """ours: nll of the bf16 path; baseline: nll of the plain fp32 loop, both in nats a token."""
    steps = 200 if quick else 2000
    overrides = ["corpus.pairs=20000", f"tokenizer.vocabulary={VOCABULARY}", "cluster.backend=local"]
    shards = shard(compose.typed(Config, compose.values([f"paths.root={folder}", *overrides]))).directory
    ours = curve(shards, folder / "ours", "bf16", steps)
    with plain_paths():
        plain = curve(shards, folder / "plain", "fp32", steps)
        again = curve(shards, folder / "again", "fp32", steps, seed=2)
    print("   steps    ours   plain  other masks  ours - plain  other - plain")
    block = min(BLOCK, steps // 2)
    for start in range(0, steps, block):
        mine, theirs, other = (sum(losses[start : start + block]) / block for losses in (ours, plain, again))
        differences = f"{mine - theirs:+13.4f} {other - theirs:+14.4f}"
        print(f"{start + block:8,} {mine:7.4f} {theirs:7.4f} {other:12.4f} {differences}")
    return Result(
        "train-curve", sum(ours[-block:]) / block, sum(plain[-block:]) / block, "nats a token, last steps", "baseline"
    )


def curve(shards: Path, run: Path, precision: Precision, steps: int, seed: int = 1) -> list[float]:
    """The negative log-likelihood of every step; `seed` is that of the dropout masks."""
    with trainer(shards, run, precision, TOKENS) as made:
        optimizer = replace(made.config.optimizer, lr=RATE, warmup_steps=WARM_UP)
        made.config, made.seed = replace(made.config, max_steps=steps, optimizer=optimizer), seed
        made.run(lambda step, values: None)
    return [line["nll"] for line in journal.lines(run / journal.NAME) if "batch" in line]
