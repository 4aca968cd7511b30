"""BLEU that an hour of two cores buys, from raw files: two networks, reordered by a third that translates back.

    python -m bench hour [--quick] [--corpus multi30k] [--pair en-de] [--seed 1]

Two networks are trained at once, a core each, by the experiment as it is with two seeds in a row; then a short run of
the other direction while the 12 best translations of both together are searched. Weights are tuned on the validation
set. What is compared is a network alone, as its own run ends: the mean of the two.
"""

import tempfile
import time
from pathlib import Path

from bench.quality import execute
from bench.result import Result
from bench.two_cores import at_once, corpus_arguments, corpus_overrides, train_command, two_cores
from dragoman.pipelines.evaluation.metrics import Scores, score

BACK_STEPS = 1500  # a fifth of the experiment's: what reorders need not translate well by itself
HELD_OUT = ("valid", "test")
LISTS = ["translate.format=moses", "translate.nbest=12", "decode.beam=12", "decode.length_penalty=1"]


def run(quick: bool, args: list[str]) -> Result:
    """Cased BLEU of the test set; --quick trains for a hundred steps, which says only that it works."""
    options = corpus_arguments("hour", pair="en-de").parse_args(args)
    recipe = ["experiment=multi30k", "train.optimizer.split_packed=false"]  # the published figure's
    common, cores = [*recipe, *corpus_overrides("hour", options.corpus)], two_cores("hour")
    source, target = options.pair.split("-")
    forward, backward = [*common, f"pair={source}-{target}"], [*common, f"pair={target}-{source}"]
    names = [f"seed-{options.seed}", f"seed-{options.seed + 1}"]
    short = ["train.max_steps=100", "train.checkpoint_every=50", "train.evaluate_every=50"] if quick else []
    back = [f"train.max_steps={BACK_STEPS}", "train.checkpoint_every=100", "train.evaluate_every=250", *short]
    with tempfile.TemporaryDirectory() as name:
        home, begun = Path(name), time.monotonic()
        texts = home / "shards" / f"{options.corpus}-{options.pair}-bpe"  # where the held-out ones lie, a file a side

        def train(which: int) -> None:
            seed = f"seed={options.seed + which}"
            execute(train_command([*forward, seed], names[which], *short), home)
            told(begun, f"{names[which]} is trained and translated the test set")

        def train_back() -> None:
            seed = f"seed={options.seed}"
            execute(train_command([*backward, seed], "back", *back, "evaluate.split=valid"), home)
            told(begun, "the other direction is trained")

        def search() -> None:
            bundles = ",".join(str(home / "runs" / name / "bundle") for name in names)
            for split in HELD_OUT:
                files = [f"translate.input={texts}/{split}.{source}.txt", f"translate.output={home}/{split}.nbest"]
                execute(["dragoman", "translate", f"translate.ensemble=[{bundles}]", *LISTS, *files], home)
            told(begun, "the lists of both are there")

        at_once(
            cores,
            lambda: execute(["dragoman", "shard", *forward], home),
            lambda: execute(["dragoman", "shard", *backward], home),
        )
        told(begun, "the shards are written")
        at_once(cores, lambda: train(0), lambda: train(1))
        at_once(cores, train_back, search)
        for split, what in zip(HELD_OUT, ("tune", "weights"), strict=True):
            execute(rerank_command(home, texts, split, options.pair, f"rerank.{what}={home}/weights.json"), home)
        told(begun, "the lists are reordered")

        references = lines(texts / f"test.{target}.txt")
        alone = [score(lines(home / "runs" / n / f"hypotheses.test.{target}.txt"), references, target) for n in names]
        best = score(lines(home / "test.out"), references, target)
    for who, found in [*zip(names, alone, strict=True), ("reordered", best)]:
        print(f"{who:<10} BLEU {found.bleu:.2f}, lower-cased Moses {moses(found):.2f}, chrF {found.chrf:.2f}")
    mean = sum(found.bleu for found in alone) / len(alone)
    return Result("hour", best.bleu, mean, f"BLEU of {options.corpus} {options.pair}", "baseline")


def rerank_command(home: Path, texts: Path, split: str, pair: str, weights: str) -> list[str]:
    """Tune on a split, or write its best to SPLIT.out."""
    source, target = (texts / f"{split}.{language}.txt" for language in pair.split("-"))
    model = [f"rerank.bundle={home}/runs/back/bundle", "rerank.reverse=true", f"rerank.nbest={home}/{split}.nbest"]
    out = f"rerank.references={target}" if "tune" in weights else f"rerank.output={home}/{split}.out"
    return ["dragoman", "rerank", *model, f"rerank.source={source}", out, weights]


def told(begun: float, what: str) -> None:
    print(f"{(time.monotonic() - begun) / 60:5.1f} minutes: {what}", flush=True)


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def moses(found: Scores) -> float:
    """Of lower-cased words as Moses cuts them, which is what papers on Multi30k give."""
    return found.bleu_lowercase if found.bleu_moses is None else found.bleu_moses
