"""Upper case, typos, missing stops: BLEU with and without `loader.modifiers`, with and without markers of capitals.

    python -m bench modifiers [--quick] [--root FOLDER] [--pairs N] [--steps N] [--shares upper_case=0.1,typos=0.15]

The corpus is everyday, or with --root Multi30k of that folder, en-de. Four networks have the same pairs and seed, and
read each pair as it stands equally often: --steps are those of the one without modifiers and markers. The test set
stands as it is and in three forms: sources and references in upper case, sources with typos, both without their last
mark. The figure is the mean BLEU of the three forms, of modifiers and markers beside neither. The validation set, in
the same forms, is that to choose shares by (`loader.shares=tokens`).
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sacrebleu

from bench.result import Result
from dragoman.conf import compose
from dragoman.model.inference.translator import open_translator
from dragoman.model.shards.reader import ShardReader
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.loaders.modifiers import MODIFIERS, Draws, Modify
from dragoman.pipelines.loaders.window import Window
from dragoman.pipelines.shard import shard

FORMS = ("clean", "upper_case", "typos", "no_stop")
SEED = 99  # of the test set's typos, which no training draws
SHARES = "upper_case=0.1,typos=0.15,no_stop=0.1"
LANES = 2  # batches of a step


def run(quick: bool, args: list[str]) -> Result:
    """The baseline has neither modifiers nor markers."""
    parser = argparse.ArgumentParser(prog="python -m bench modifiers")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--pairs", type=int, default=300 if quick else 20_000)
    parser.add_argument("--steps", type=int, default=4 if quick else 2_000)
    parser.add_argument("--shares", default=SHARES)
    options = parser.parse_args(args)
    corpus = ["corpus=multi30k", f"corpus.root={options.root}"] if options.root else ["corpus=everyday"]
    modifiers = ["loader.shares=tokens", *(f"loader.modifiers.{share}" for share in options.shares.split(","))]
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        epochs = 0.0
        for markers in ("false", "true"):
            words = [*corpus, f"paths.root={name}", f"paths.shards={name}/{markers}", "tokenizer.byte_fallback=true",
                     "tokenizer.vocabulary=4000", f"tokenizer.case_markers={markers}"]  # fmt: skip
            words += [] if options.root else [f"corpus.pairs={options.pairs}"]
            shard(settings([*words, "name=shards"], options.steps))
            for label, own in {"plain": [], "modified": modifiers}.items():
                arm = f"{label}{', markers' if markers == 'true' else ''}"
                config = settings([*words, *own, f"name={label}-{markers}"], options.steps)
                needed = steps_an_epoch(config)
                epochs = epochs or options.steps / needed
                steps = options.steps if arm == "plain" else max(options.steps, round(epochs * needed))
                print(f"{arm}: {steps:,} steps, {epochs:.1f} times each pair as it stands", flush=True)
                found[arm] = measure(settings([*words, *own, f"name={label}-{markers}"], steps))
    for split in ("valid", "test"):
        print("\n".join([f"| BLEU, {split} | {' | '.join(FORMS)} |", f"|---{'|---' * len(FORMS)}|"]))
        for arm, scores in found.items():
            print(f"| {arm} | {' | '.join(f'{scores[split][form]:.2f}' for form in FORMS)} |")
    ours, baseline = (
        statistics.mean(found[arm]["test"][form] for form in FORMS[1:]) for arm in ("modified, markers", "plain")
    )
    return Result("modifiers", ours, baseline, "BLEU, mean of three forms of the test set", "baseline")


def steps_an_epoch(config: Config) -> float:
    """Returns the steps in which each pair is read once as it stands."""
    reader = ShardReader(config.shard_dir, "train")
    window = Window.of(list(reader))
    modify = Modify(reader, config.loader.modifiers, config.seed, config.loader.shares)
    epochs = np.zeros(len(window.ids), np.int64)
    changed = [*modify.chosen(window.ids, epochs).values()]
    clean = 1.0 - float(np.logical_or.reduce(changed).mean()) if changed else 1.0
    _, batches = (modify(window, epochs) if changed else window).batches(
        np.arange(len(window.ids)), config.loader.batch_tokens
    )
    return len(batches) / LANES / clean


def settings(words: Sequence[str], steps: int) -> Config:
    """The same training for all."""
    every = max(1, round(steps / 10))
    values = compose.values(
        [
            "model=transformer_tiny", "loader.batch_tokens=2048", f"loader.lanes={LANES}",
            f"train.max_steps={10 * every}",
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
