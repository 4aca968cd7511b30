"""CPU seconds of training until a validation BLEU: our recipe, our recipe before it, and eole.

    python -m bench race [--corpus everyday|multi30k] [--quick] [--seed 1] [--times 3] [--picture FILE]

All train on the same pieces, each alone in one process on one thread, one after the other. What counts is the CPU time
of the training's process, which other work on the machine stretches less than the clock's. A mark is reached by the
first stored weights whose translations of the validation set (beam 5) score so much. No test set is read.

Ours is `experiment=demo` for everyday and `experiment=multi30k` for Multi30k as they are; `before` holds the settings
that they had when this benchmark began. eole has Transformer-tiny's sizes, its fastest precision, and the best of a
few learning rates by a trial each; it may take `--times` as long as ours took in all. The last line compares the CPU
seconds to the highest mark that both have reached.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file

from bench import race_eole
from bench.english_text import CORPORA
from bench.peers import ROOT
from bench.result import Result
from dragoman.conf import compose
from dragoman.model.bundles import ctranslate2
from dragoman.model.bundles.weights import fill
from dragoman.model.inference.engines import CTranslate2Engine
from dragoman.model.inference.translator import Translator
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.metrics import quick_bleu
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks.translation import Pairs

BEAM = 5
RATES = (0.25, 0.5, 1.0)  # of eole's noam, which multiplies them by 1 / sqrt(width x updates)
TRIAL = 60.0  # CPU seconds for each of them
OLD = ["model=transformer_tiny", "train.optimizer.weight_decay=0", "train.optimizer.split_packed=false"]


@dataclass(frozen=True)
class Course:
    """A corpus, its recipe, the one before, the marks, and the steps between two measurements."""

    experiment: str
    before: tuple[str, ...]
    marks: tuple[float, ...]
    every: int


COURSES = {
    "everyday": Course(
        "demo",
        (*OLD, "model.norm=pre", "train.optimizer.kind=adam", "train.optimizer.lr=0.004", "loader.batch_tokens=1024",
         "train.optimizer.warmup_steps=100", "train.max_steps=700"),
        (35.0, 42.0, 48.0),
        50,
    ),
    "multi30k": Course(
        "multi30k",
        ("model=transformer_tiny", "train.optimizer.kind=muon", "train.optimizer.lr=0.004",
         "train.optimizer.weight_decay=0.2", "train.optimizer.split_packed=true", "train.optimizer.warmup_steps=250",
         "loader.batch_tokens=2048", "model.dropout=0.3", "train.max_steps=7500"),
        (30.0, 36.0, 40.0),
        250,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """The state of a training after so many CPU seconds."""

    seconds: float
    bleu: float


def run(quick: bool, args: list[str]) -> Result:
    """CPU seconds to the highest mark that both reached; --quick trains a few steps, to show that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench race")
    parser.add_argument("--corpus", choices=list(COURSES), default="everyday")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=float, default=3.0, help="eole's CPU seconds at most, in ours")
    parser.add_argument("--picture", type=Path, help="BLEU against CPU seconds, as PNG")
    options = parser.parse_args(args)
    course = COURSES[options.corpus]
    corpus = [f"corpus={options.corpus}"]
    if options.corpus != "everyday":
        corpus.append(f"corpus.root={CORPORA / options.corpus}")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        words = [f"experiment={course.experiment}", *corpus, f"seed={options.seed}", f"paths.root={home}"]
        if quick:
            words += ["corpus.pairs=2000"] if options.corpus == "everyday" else []
        shard(compose.typed(Config, compose.values([*words, "cluster.backend=local"])))
        short = ["train.max_steps=20"] if quick else []
        every = 10 if quick else course.every
        curves = {"ours": train(home / "ours", [*words, *short], every)}
        curves["before"] = train(home / "before", [*words, *course.before, *short], every)
        limit = 30.0 if quick else options.times * curves["ours"][-1].seconds
        curves["eole"] = peer(home, words, limit, course.marks[-1], RATES[1:2] if quick else RATES, 2 if quick else 12)
    marks = (0.0,) if quick else course.marks
    for mark in marks:
        row = (f"{who} {told(seconds_to(mark, curve))}" for who, curve in curves.items())
        print(f"BLEU {mark:g}:  {'  '.join(row)}")
    if options.picture:
        draw(curves, options.picture)
    both = [mark for mark in marks if seconds_to(mark, curves["ours"]) and seconds_to(mark, curves["eole"])]
    if not both:
        raise RuntimeError(f"no mark of {marks} was reached by both")
    ours, theirs = (seconds_to(both[-1], curves[who]) or 0.0 for who in ("ours", "eole"))
    return Result("race", ours, theirs, f"CPU seconds of training to validation BLEU {both[-1]:g} on {options.corpus}")


def seconds_to(mark: float, curve: Sequence[Point]) -> float | None:
    """Returns the CPU seconds to the first point with this BLEU; None if there is none."""
    return next((point.seconds for point in curve if point.bleu >= mark), None)


def told(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.0f} s"


def train(folder: Path, words: list[str], every: int) -> list[Point]:
    """Returns the curve of a training of ours by these words."""
    folder.mkdir()
    command = [sys.executable, "-m", "bench.race_training", str(folder), str(every), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    learning = Pairs(compose.typed(Config, compose.values([*words, "cluster.backend=local"])))
    network, config = learning.network, learning.config
    sources, references = held_out(config.shard_dir, "valid", config.languages)
    curve = []
    for line in lines:
        fill(network, load_file(folder / f"{line['step']}.safetensors"), str(folder))
        texts = translations(network, learning.tokenizers, sources, folder / f"export-{line['step']}")
        curve.append(Point(line["seconds"], quick_bleu(texts, references, config.languages[1])))
        print(f"{folder.name}: {line['seconds']:,.0f} s, step {line['step']:,}: loss {line['loss']:.3f}, "
              f"BLEU {curve[-1].bleu:.2f}", flush=True)  # fmt: skip
    return curve


def translations(
    network: TranslationNetwork, tokenizers: TokenizerPair, lines: Sequence[str], folder: Path
) -> list[str]:
    """Returns the lines translated by CTranslate2, for which the network is exported to the new folder."""
    source, target = ([*side.pieces(range(side.vocabulary))] for side in (tokenizers.source, tokenizers.target))
    ctranslate2.export(network, folder, source, target)
    engine = CTranslate2Engine(
        folder,
        source,
        target,
        source_positions=network.max_source_positions,
        target_positions=network.max_target_positions,
    )
    search = DecodeConfig(beam=BEAM, length_penalty=1.0)
    translator = Translator(engine, tokenizers, search, network.max_source_positions)
    return [answer.text for answer in translator.translate(lines)]


def peer(home: Path, words: list[str], limit: float, mark: float, rates: Sequence[float], points: int) -> list[Point]:
    """Returns eole's curve by the best of the rates, up to the mark or the limit of CPU seconds."""
    config = compose.typed(Config, compose.values(words))
    folder = home / "eole"
    race_eole.write_pieces(config.shard_dir, folder)
    trials = {}
    for rate in rates if len(rates) > 1 else ():
        trials[rate] = measure(config, folder, rate, min(TRIAL, limit), mark, points=1)[-1].bleu
        print(f"eole, tried a rate of {rate:g}: BLEU {trials[rate]:.2f}", flush=True)
    best = max(trials, key=lambda rate: trials[rate]) if trials else rates[0]
    return measure(config, folder, best, limit, mark, points)


def measure(config: Config, folder: Path, rate: float, limit: float, mark: float, points: int) -> list[Point]:
    """Trains eole anew and scores it `points` times up to the limit of CPU seconds, or until it reaches the mark."""
    sources, references = held_out(config.shard_dir, "valid", config.languages)
    curve: list[Point] = []
    with race_eole.training(folder, rate, float(config.model["dropout"])) as training:
        for number in range(1, points + 1):
            seconds = training.until(limit * number / points)
            texts = race_eole.translate(config.shard_dir, folder, sources)
            curve.append(Point(seconds, quick_bleu(texts, references, config.languages[1])))
            print(f"eole: {seconds:,.0f} s: BLEU {curve[-1].bleu:.2f}", flush=True)
            if curve[-1].bleu >= mark:
                break
    return curve


def draw(curves: dict[str, list[Point]], path: Path) -> None:
    """Writes BLEU against CPU seconds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for who, curve in curves.items():
        axes.plot([point.seconds for point in curve], [point.bleu for point in curve], marker=".", label=who)
    axes.set(xlabel="CPU seconds of training", ylabel="validation BLEU")
    axes.legend()
    figure.savefig(path, dpi=120)
