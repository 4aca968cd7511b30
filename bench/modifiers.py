"""Upper case, typos, missing stops: BLEU of two networks, one of them trained with `loader.modifiers`.

    python -m bench modifiers [--quick] [--root FOLDER] [--pairs N] [--steps N]

The corpus is the phrasebook, or with --root Multi30k of that folder, en-de. Both networks have the same shards, seed
and steps. The test set stands as it is and in three forms: sources and references in upper case, sources with typos,
both without their last mark. The figure is the mean BLEU of the three forms. The validation set, in the same forms, is
that to choose shares by.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import sacrebleu

from bench.result import Result
from dragoman.conf import compose
from dragoman.model.inference.translator import open_translator
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.translation import held_out
from dragoman.pipelines.loaders.modifiers import MODIFIERS, Draws
from dragoman.pipelines.shard import shard

FORMS = ("clean", "upper_case", "typos", "no_stop")
SEED = 99  # of the test set's typos, which no training draws
SHARES = ["upper_case=0.1", "typos=0.15", "no_stop=0.1"]


def run(quick: bool, args: list[str]) -> Result:
    """The baseline is the same training without modifiers."""
    parser = argparse.ArgumentParser(prog="python -m bench modifiers")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--pairs", type=int, default=300 if quick else 20_000)
    parser.add_argument("--steps", type=int, default=4 if quick else 2_000)
    options = parser.parse_args(args)
    corpus = ["corpus=multi30k", f"corpus.root={options.root}"] if options.root else [f"corpus.pairs={options.pairs}"]
    with tempfile.TemporaryDirectory() as name:
        base = [*corpus, f"paths.root={name}", "tokenizer.byte_fallback=true", "tokenizer.vocabulary=4000"]
        shard(settings([*base, "name=shards"], options.steps))
        modifiers = [f"loader.modifiers.{share}" for share in SHARES]
        plain, ours = (
            measure(settings([*base, *words], options.steps))
            for words in (["name=plain"], ["name=modified", *modifiers])
        )
    for split in ours:
        for form in FORMS:
            with_them, without = ours[split][form], plain[split][form]
            print(f"{split:>5} {form:>10}: BLEU {with_them:.2f} with modifiers, {without:.2f} without")
    mean, baseline = (statistics.mean(scores["test"][form] for form in FORMS[1:]) for scores in (ours, plain))
    return Result("modifiers", mean, baseline, "BLEU, mean of three forms of the test set", "baseline")


def settings(words: Sequence[str], steps: int) -> Config:
    """The same training for both."""
    every = max(1, steps // 10)
    values = compose.values(
        [
            "model=transformer_tiny", "loader.batch_tokens=2048", f"train.max_steps={10 * every}",
            f"train.evaluate_every={5 * every}", f"train.checkpoint_every={every}", "train.average_last=2",
            "train.optimizer.kind=muon", "train.optimizer.lr=0.004", "train.optimizer.schedule=cosine",
            f"train.optimizer.warmup_steps={every}", "decode.beam=1", "decode.length_penalty=1.0",
            "cluster.backend=local", "registry.register=false", "tracking.offline=true",
            "tracking.system_metrics=false", *words,
        ]
    )  # fmt: skip
    return compose.typed(Config, values)


def measure(config: Config) -> dict[str, dict[str, float]]:
    """Trains, and returns split -> form -> BLEU."""
    train.task(config)
    translator = open_translator(config.run_dir / "bundle", "ctranslate2")
    found: dict[str, dict[str, float]] = {"valid": {}, "test": {}}
    for split, scores in found.items():
        pairs = list(zip(*held_out(config.shard_dir, split, config.languages), strict=True))
        for form in FORMS:
            sources, references = zip(*(changed(form, pair, row) for row, pair in enumerate(pairs)), strict=True)
            answers = [answer.text for answer in translator.translate(sources)]
            scores[form] = float(sacrebleu.corpus_bleu(answers, [list(references)], tokenize="13a").score)
    return found


def changed(form: str, pair: tuple[str, str], row: int) -> tuple[str, str]:
    """The pair in this form."""
    if form == "clean":
        return pair
    number, modifier, signs = MODIFIERS[form]
    return modifier(pair, Draws(SEED, 0, row, number), signs)
