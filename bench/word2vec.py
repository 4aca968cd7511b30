"""word2vec on ten million words, raw words/s a core: ours against a peer, in turns; in full also the quality.

    python -m bench word2vec [--quick] [--peer gensim|fasttext] [--only TEXT] [--words N] [--rounds N] [--no-quality]
    python -m bench word2vec --device cuda     the form for GPUs instead, beside ours on the CPU (no peer needed)

Skip-gram and CBOW, each with 5 negatives and with hierarchical softmax; d = 100, window 5 dynamic, sample 1e-3, rate
0.025 (CBOW 0.05, as in the original tool) falling to 1e-4, on one and on two threads. Ours draws
negatives once for a window's words, the peers for each pair. Ours is given
encoded text, as the shards hold it; the peers read their file. Quality: 5 epochs on 2 threads, mean over 3 seeds
(fastText has one seed: its three runs differ by the order in which its threads happened to write). --only: the forms
that begin so.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.english_text import CORPORA, RECORD, EnglishText, english_text
from bench.peers import ROOT, peer_python
from bench.result import Result, in_turns, rate
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.word2vec import Word2Vec, Word2VecConfig

SEGMENT = 50 * RECORD  # words between two settings of the rate, as in a training
VARIANTS = {
    "skip-gram, 5 negatives": Word2VecConfig(),
    "skip-gram, hierarchical": Word2VecConfig(output="hierarchical"),
    "CBOW, 5 negatives": Word2VecConfig(algorithm="cbow", lr=0.05),
    "CBOW, hierarchical": Word2VecConfig(algorithm="cbow", output="hierarchical", lr=0.05),
}
SETS = {"WordSim-353": "EN-WS-353-ALL.txt", "SimLex-999": "EN-SIMLEX-999.txt", "MEN": "EN-MEN-TR-3k.txt"}
ANALOGIES, RESTRICT = "questions-words.txt", 30_000
EPOCHS, SEEDS = 5, 3
PEERS = ("gensim", "fasttext")


def run(quick: bool, args: list[str]) -> Result:
    """Words are those of the text, frequent and rare ones included."""
    parser = argparse.ArgumentParser(prog="python -m bench word2vec")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--peer", choices=PEERS, default=PEERS[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--words", type=int, default=1_500_000 if quick else 10_000_000)
    parser.add_argument("--rounds", type=int, default=1 if quick else 3)
    parser.add_argument("--no-quality", action="store_true")
    options = parser.parse_args(args)
    if options.device == "cuda":
        return gpu(quick)
    variants = {name: config for name, config in VARIANTS.items() if name.startswith(options.only)}
    if not variants:
        sys.exit(f"bench word2vec: --only={options.only}: no form begins so. Forms: {'; '.join(VARIANTS)}")
    with tempfile.TemporaryDirectory() as folder:
        english = english_text(Path(folder) / "text.txt", options.words)
        with Peer(options.peer, english.path) as peer:
            found = speeds(variants, english, peer, options.rounds)
            if english.real and not quick and not options.no_quality:
                qualities(variants, english, peer, Path(folder) / "peer.npz")
    first = next(iter(variants))
    ours, theirs = (found[side, first, 1] for side in ("ours", options.peer))
    what = f"M raw words/s on one core, {first}, and {options.peer}"
    return Result("word2vec", ours / 1e6, theirs / 1e6, what)


def gpu(quick: bool) -> Result:
    """Skip-gram with 5 negatives: raw words/s on a GPU, beside one thread of this machine's processor."""
    import torch

    from dragoman.model.word_vectors.batched import BatchedWord2Vec

    if not torch.cuda.is_available():
        sys.exit("bench word2vec --device cuda: torch sees no GPU here")
    with tempfile.TemporaryDirectory() as folder:
        english = english_text(Path(folder) / "text.txt", 1_500_000 if quick else 10_000_000)
    learner = BatchedWord2Vec(Word2VecConfig(), english.vocabulary.counts, 1, "cuda")

    def work() -> int:
        for number, segment in enumerate(cut(english.text, len(english.text))):
            learner.train(segment, 0.025, number, 0)
        return len(english.text)

    work()  # libraries initialise
    found = in_turns(1 if quick else 3, gpu=lambda: rate(work), cpu=lambda: our_rate(Word2VecConfig(), english, 1))
    return Result("word2vec", found["gpu"] / 1e6, found["cpu"] / 1e6, "M raw words/s on a GPU, and on one core")


def speeds(
    variants: dict[str, Word2VecConfig], english: EnglishText, peer: "Peer", rounds: int
) -> dict[tuple[str, str, int], float]:
    """(side, variant, threads) -> raw words/s of one epoch, the median of the turns; printed as a table."""
    for config in variants.values():  # compiled, or read from where compiled code is kept, before the clock starts
        train(Word2Vec(config, english.vocabulary.counts, 1), english, 1, 1, 2, words=2 * RECORD)
    measures: dict[str, Callable[[], float]] = {}
    places = [(variant, threads) for variant in variants for threads in (1, 2)]
    for number, (variant, threads) in enumerate(places):
        measures[f"ours{number}"] = partial(our_rate, variants[variant], english, threads)
        measures[f"theirs{number}"] = partial(peer.rate, variants[variant], len(english.text), threads)
    medians = in_turns(rounds, **measures)
    found = {}
    print(f"{'M raw words/s':<26}{'threads':>8}{'ours':>8}{peer.name:>9}{'ratio':>8}{'2 threads / 1':>24}")
    for number, (variant, threads) in enumerate(places):
        ours, theirs = medians[f"ours{number}"], medians[f"theirs{number}"]
        found["ours", variant, threads], found[peer.name, variant, threads] = ours, theirs
        line = f"{variant:<26}{threads:>8}{ours / 1e6:>8.2f}{theirs / 1e6:>9.2f}{ours / theirs:>8.1f}"
        if threads == 2:
            line += "".join(
                f"{name} {found[name, variant, 2] / found[name, variant, 1]:.2f}".rjust(15)
                for name in ("ours", peer.name)
            )
        print(line, flush=True)
    return found


def train(ours: Word2Vec, english: EnglishText, seed: int, epochs: int, threads: int, words: int = 0) -> None:
    """A training as the loop does it: a segment at a time, the rate falling with the words seen."""
    segments = list(cut(english.text, words or len(english.text)))
    steps = epochs * len(segments)
    for step in range(steps):
        lr = max(ours.config.min_lr, ours.config.lr * (1 - step / steps))
        ours.train(segments[step % len(segments)], lr, seed * steps + step, threads)


def cut(text: Text, words: int) -> Iterator[Text]:
    """Segments of whole records, of the first `words` words."""
    for first in range(0, words, SEGMENT):
        offsets = text.offsets[first // RECORD : min(first + SEGMENT, words) // RECORD + 1]
        yield Text(text.rows[offsets[0] : offsets[-1]], offsets - offsets[0])


def our_rate(config: Word2VecConfig, english: EnglishText, threads: int) -> float:
    """Raw words/s of one epoch."""
    ours = Word2Vec(config, english.vocabulary.counts, 1)

    def work() -> int:
        train(ours, english, 1, 1, threads)
        return len(english.text)

    return rate(work)


class Peer:
    """A peer of PEERS, in a process of its own environment that stays for all turns."""

    def __init__(self, name: str, text: Path) -> None:
        self.name = name
        self._words = [str(peer_python()), "-m", f"bench.{name}_word2vec", str(text)]

    def __enter__(self) -> "Peer":
        self._process = subprocess.Popen(
            self._words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}'s process ended without an answer; its message stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def train(
        self, config: Word2VecConfig, threads: int, seed: int = 1, epochs: int = 1, save: Path | None = None
    ) -> float:
        """Seconds of the training with the settings of `config`, which the process writes in its library's words."""
        settings = {**asdict(config), "threads": threads, "seed": seed, "epochs": epochs}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"settings": settings, "save": str(save) if save else None}) + "\n")
        return float(self._answer()["seconds"])

    def rate(self, config: Word2VecConfig, words: int, threads: int) -> float:
        """Raw words/s of one epoch."""
        return words / self.train(config, threads)


def qualities(variants: dict[str, Word2VecConfig], english: EnglishText, peer: Peer, saved: Path) -> None:
    """Print the scores of both sides, the mean of the seeds and their range."""
    print(f"\nafter {EPOCHS} epochs on 2 threads, mean of {SEEDS} seeds (range); analogies: 3CosAdd, top {RESTRICT:,}")
    print(f"{'':<35}" + "".join(f"{name:>20}" for name in (*SETS, "Google analogies")))
    for variant, config in variants.items():
        of_ours = []
        for seed in range(1, SEEDS + 1):
            ours = Word2Vec(config, english.vocabulary.counts, seed)
            train(ours, english, seed, EPOCHS, 2)
            of_ours.append(scores(english.vocabulary.words, ours.vectors()["vectors"]))
        of_peer = []
        for seed in range(1, SEEDS + 1):
            peer.train(config, 2, seed, EPOCHS, saved)
            with np.load(saved) as trained:
                of_peer.append(scores(trained["words"].tolist(), trained["vectors"]))
        for name, found in (("ours", of_ours), (peer.name, of_peer)):
            columns = np.array(found)
            cells = [f"{c.mean():.1f} ({c.min():.1f}-{c.max():.1f})" for c in columns.T]
            print(f"{variant:<26}{name:<9}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


def scores(words: list[str], vectors: np.ndarray) -> list[float]:
    """Spearman x 100 on each of SETS and the percentage of Google's analogies."""
    from dragoman.pipelines.evaluation.word_vectors.evaluation import evaluate_embeddings
    from dragoman.pipelines.word_vectors.settings import EvaluateVectors

    root = str(CORPORA / "wordvec-eval")
    settings = EvaluateVectors(root=root, similarity=list(SETS.values()), analogies=[ANALOGIES], restrict=RESTRICT)
    found = evaluate_embeddings(Embeddings(words, None, vectors), settings).scores()
    names = [f"similarity/{Path(file).stem}" for file in SETS.values()]
    return [found[name] for name in (*names, f"analogies/{Path(ANALOGIES).stem}/total")]
