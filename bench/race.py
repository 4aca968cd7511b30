"""CPU seconds of training until a validation BLEU: our recipe, our recipe before it, eole and MarianMT.

    python -m bench race [--corpus everyday|multi30k] [--quick] [--seed 1] [--minutes 15] [--picture FILE]

All train on the same pieces, each alone in one process on one thread, one after the other. What counts is the CPU time
of the training's process, which other work on the machine stretches less than the clock's. A mark is reached by the
first stored weights whose translations of the validation set (beam 5) score so much. No test set is read.

Ours is `experiment=demo` for everyday, and what `dragoman train` takes where nobody chooses for Multi30k; `before`
holds the settings that these had when this benchmark began. The peers have Transformer-tiny's sizes and their fastest
precision. Each begins at a few learning rates, and the one with the best BLEU after a quarter of `--minutes` of CPU
time goes on to the end of them, or to the last mark. The last line compares the CPU seconds to the highest mark that
ours and a peer have reached.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file

from bench.english_text import CORPORA
from bench.peers import ROOT
from bench.race_peers import BEAM, Eole, Marian, Peer, Training, training
from bench.race_training import configuration
from bench.result import Result
from dragoman.model.bundles import ctranslate2
from dragoman.model.bundles.weights import fill
from dragoman.model.inference.engines import CTranslate2Engine
from dragoman.model.inference.translator import Translator
from dragoman.model.networks.transformer import Transformer
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.metrics import quick_bleu
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks.translation import Pairs

TRIAL = 0.25  # of the peers' time: until then each of their rates is tried
POINTS = 12  # measurements of a peer
OLD = [
    "model=transformer_tiny", "model.encoder_layers=4",
    "train.optimizer.kind=adam", "train.optimizer.weight_decay=0", "train.optimizer.split_packed=false",
    "train.optimizer.schedule=cosine",
]  # fmt: skip


@dataclass(frozen=True)
class Course:
    """A corpus, its recipe, the one before, the marks, and the steps between two measurements."""

    recipe: tuple[str, ...]
    before: tuple[str, ...]
    marks: tuple[float, ...]
    every: int


COURSES = {
    "everyday": Course(
        ("experiment=demo",),
        (*OLD, "model.norm=pre", "train.optimizer.lr=0.004", "loader.batch_tokens=1024",
         "train.optimizer.warmup_steps=100", "train.max_steps=700"),
        (35.0, 42.0, 48.0),
        50,
    ),
    "multi30k": Course(
        (),
        (*OLD, "model.norm=post", "model.dropout=0.1", "train.optimizer.lr=0.003", "loader.batch_tokens=1400",
         "train.optimizer.warmup_steps=190", "train.max_steps=2100"),
        (30.0, 36.0, 40.0),
        150,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """The state of a training after so many CPU seconds."""

    seconds: float
    bleu: float
    wall: float = 0.0


def run(quick: bool, args: list[str]) -> Result:
    """CPU seconds to the highest mark that both reached; --quick trains a few steps, to show that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench race")
    parser.add_argument("--corpus", choices=list(COURSES), default="everyday")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=15.0, help="CPU time of each peer at most")
    parser.add_argument("--picture", type=Path, help="BLEU against CPU seconds, as PNG")
    options = parser.parse_args(args)
    course = COURSES[options.corpus]
    corpus = [f"corpus={options.corpus}"]
    if options.corpus != "everyday":
        corpus.append(f"corpus.root={CORPORA / options.corpus}")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        words = [*course.recipe, *corpus, f"seed={options.seed}", f"paths.root={home}"]
        if quick:
            words += ["corpus.pairs=2000"] if options.corpus == "everyday" else []
        shard(configuration("shard", words))
        short = ["train.max_steps=20"] if quick else []
        every = 10 if quick else course.every
        curves = {"ours": train(home / "ours", [*words, *short], every)}
        curves["before"] = train(home / "before", [*words, *course.before, *short], every)
        limit = 30.0 if quick else 60 * options.minutes
        config = configuration("train", words)
        dropout = float(config.model["dropout"])
        peers: tuple[Peer, ...] = (
            Eole(config.shard_dir, home / "pieces", dropout),
            Marian(config.shard_dir, dropout),
        )
        for peer in peers:
            curves[peer.name] = race_peer(peer, home, config, limit, course.marks[-1], 2 if quick else POINTS)
    marks = (0.0,) if quick else course.marks
    for mark in marks:
        print(f"BLEU {mark:g}:  {'  '.join(f'{who} {describe(mark, curve)}' for who, curve in curves.items())}")
    if options.picture:
        draw(curves, options.picture)
    theirs = {mark: [s for peer in peers if (s := seconds_to(mark, curves[peer.name]))] for mark in marks}
    both = [mark for mark in marks if seconds_to(mark, curves["ours"]) and theirs[mark]]
    if not both:
        raise RuntimeError(f"no mark of {marks} was reached by ours and a peer")
    unit = f"CPU seconds of training to validation BLEU {both[-1]:g} on {options.corpus}"
    return Result("race", seconds_to(both[-1], curves["ours"]) or 0.0, min(theirs[both[-1]]), unit)


def seconds_to(mark: float, curve: Sequence[Point]) -> float | None:
    """Returns the CPU seconds to the first point with this BLEU; None if there is none."""
    return next((point.seconds for point in curve if point.bleu >= mark), None)


def describe(mark: float, curve: Sequence[Point]) -> str:
    """Returns the CPU seconds to the mark and the wall seconds, or how far the curve came."""
    reached = next((point for point in curve if point.bleu >= mark), None)
    if reached:
        return f"{reached.seconds:,.0f} s (wall {reached.wall:,.0f} s)"
    return f"not reached ({max(point.bleu for point in curve):.1f} after {curve[-1].seconds:,.0f} s)"


def train(folder: Path, words: list[str], every: int) -> list[Point]:
    """Returns the curve of a training of ours by these words."""
    folder.mkdir()
    command = [sys.executable, "-m", "bench.race_training", str(folder), str(every), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    learning = Pairs(configuration("train", words))
    network, config = learning.network, learning.config
    assert isinstance(network, Transformer)
    sources, references = held_out(config.shard_dir, "valid", config.languages)
    curve = []
    for line in lines:
        fill(network, load_file(folder / f"{line['step']}.safetensors"), str(folder))
        texts = translations(network, learning.tokenizers, sources, folder / f"export-{line['step']}")
        curve.append(Point(line["seconds"], quick_bleu(texts, references, config.languages[1]), line["wall"]))
        print(f"{folder.name}: {line['seconds']:,.0f} s, step {line['step']:,}: loss {line['loss']:.3f}, "
              f"BLEU {curve[-1].bleu:.2f}", flush=True)  # fmt: skip
    return curve


def translations(network: Transformer, tokenizers: TokenizerPair, lines: Sequence[str], folder: Path) -> list[str]:
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


def race_peer(peer: Peer, home: Path, config: Config, limit: float, mark: float, points: int) -> list[Point]:
    """Returns the curve of a peer by the best of its rates, up to the mark or the limit of CPU seconds."""
    sources, references = held_out(config.shard_dir, "valid", config.languages)
    curves: dict[float, list[Point]] = {rate: [] for rate in peer.rates}

    def measure(trained: Training, rate: float, until: float) -> None:
        began, waited = time.monotonic(), curves[rate][-1].wall if curves[rate] else 0.0
        seconds = trained.until(until)
        wall = waited + time.monotonic() - began
        bleu = quick_bleu(trained.translate(sources), references, config.languages[1])
        curves[rate].append(Point(seconds, bleu, wall))
        print(f"{peer.name}, rate {rate:g}: {seconds:,.0f} s: BLEU {bleu:.2f}", flush=True)

    with ExitStack() as stack:
        trainings = {}
        for rate in peer.rates:  # one after the other: each stands still while another trains
            trainings[rate] = stack.enter_context(training(peer, home / peer.name / f"{rate:g}", rate))
            measure(trainings[rate], rate, TRIAL * limit)
        best = max(peer.rates, key=lambda rate: curves[rate][-1].bleu)
        for number in range(1, points + 1):
            if curves[best][-1].bleu >= mark:
                break
            measure(trainings[best], best, limit * (TRIAL + (1 - TRIAL) * number / points))
    return curves[best]


def draw(curves: dict[str, list[Point]], path: Path) -> None:
    """Writes BLEU against CPU seconds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for who, curve in curves.items():
        axes.plot([point.seconds for point in curve], [point.bleu for point in curve], marker=".", label=who)
    axes.set(xlabel="CPU seconds of training", ylabel="validation BLEU")
    axes.legend()
    figure.savefig(path, dpi=120)
