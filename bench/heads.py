"""The sentiment of film reviews: accuracy of a head of ours, and of TF-IDF with logistic regression, on the same texts.

    python -m bench heads [--quick] [--reviews FILE.zip] [--seeds N] [--steps N] [--pretrain N]

FILE.zip is NLTK's movie_reviews (Pang and Lee 2004; 2,000 reviews). The last digit of a review's number decides: 8 and
9 are for the test, 7 for validation, on which both sides choose (the peer its C, ours the step to keep). Without the
file, and with --quick, the texts are the phrasebook's and the labels its types of sentences. Ours is the mean of seeds.

With --pretrain, ours starts from an encoder that has predicted masked words of the training texts for N steps, and no
other text.
"""

import argparse
import re
import statistics
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import zstandard

from bench.result import Result
from dragoman.conf import compose
from dragoman.model.bundles.labelled import load_label_bundle
from dragoman.model.shards.manifest import LABELS, read_manifest
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.shard import shard

REVIEWS = Path("../shared/corpora/nltk/movie_reviews.zip")
NAME = re.compile(r"movie_reviews/(pos|neg)/cv(\d+)_\d+\.txt")
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # the peer's C, chosen on validation
MODEL = [
    "model=classifier_transformer", "model.width=64", "model.heads=2", "model.feed_forward=64", "model.layers=1",
    "model.dropout=0.5", "model.max_positions=4096", "loader.max_length=4096",
]  # fmt: skip
ENCODER = [  # rotary positions: the encoder reads pieces of 512 words, the head whole reviews
    "model.width=128", "model.heads=4", "model.feed_forward=256", "model.layers=1", "model.norm=pre",
    "model.positions=rotary", "model.max_positions=4096",
]  # fmt: skip


def run(quick: bool, args: list[str]) -> Result:
    """Both sides get the same training, validation and test texts."""
    parser = argparse.ArgumentParser(prog="python -m bench heads")
    parser.add_argument("--reviews", type=Path, default=REVIEWS)
    parser.add_argument("--seeds", type=int, default=1 if quick else 3)
    parser.add_argument("--steps", type=int, default=4 if quick else 300)
    parser.add_argument("--pretrain", type=int, default=0, help="steps of the encoder before the heads; 0: none")
    options = parser.parse_args(args)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reviews = not quick and options.reviews.is_file()
        corpus = write_reviews(options.reviews, folder) if reviews else ["corpus.pairs=300"]
        shard(settings(folder, corpus, 1, options.steps))
        start = pretrain(folder, corpus, options.pretrain) if options.pretrain else []
        ours = [train_ours(folder, [*corpus, *start], seed, options.steps) for seed in range(1, options.seeds + 1)]
        peer = train_peer(folder)
    print(f"accuracy of seeds {', '.join(f'{value:.4f}' for value in ours)}; TF-IDF and logistic regression {peer:.4f}")
    return Result("heads", statistics.mean(ours), peer, f"accuracy, {'film reviews' if reviews else 'sentence types'}")


def write_reviews(archive: Path, folder: Path) -> list[str]:
    """Writes a TSV per split; returns the settings that read them."""
    rows: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    with zipfile.ZipFile(archive) as file:
        for member in sorted(file.namelist()):
            if found := NAME.search(member):
                text = " ".join(file.read(member).decode("latin-1").split())
                split = {"7": "valid", "8": "test", "9": "test"}.get(found[2][-1], "train")
                rows[split].append(f"{text}\t{found[1]}\n")
    for split, lines in rows.items():
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    files = [f"corpus.{split}.file={folder}/{split}.tsv" for split in rows]
    return [*files, "corpus.name=reviews", "corpus.clean.max_words=100000", "corpus.clean.max_chars=1000000"]


def settings(folder: Path, corpus: list[str], seed: int, steps: int, later: Sequence[str] = ()) -> Config:
    """The best step on validation is kept. Words of `later` and of `corpus` win over those here."""
    every = max(1, steps // 10)
    values = compose.values(
        [
            "corpus=labelled", "pair=en", "tokenizer=words", "tokenizer.lowercase=true", *MODEL,
            f"paths.root={folder}", f"name=seed{seed}", "loader.batch_tokens=8192",
            f"train.max_steps={every * (steps // every)}", f"train.evaluate_every={every}",
            f"train.checkpoint_every={every}", "train.final_weights=best", "train.loss.label_smoothing=0",
            "train.optimizer.lr=0.003", "train.optimizer.warmup_steps=20", "train.optimizer.schedule=cosine",
            "cluster.backend=local", "registry.register=false", "tracking.offline=true",
            "tracking.system_metrics=false", "shards.keep_text=true", *corpus, *later,
        ]
    )  # fmt: skip
    return compose.typed(Config, {**values, "seed": seed})


def pretrain(folder: Path, corpus: list[str], steps: int) -> list[str]:
    """Trains a masked encoder on the training texts; returns the settings of heads that start from it."""
    masked = [
        "model=bert_tiny", *ENCODER, "model.dropout=0.1", "name=encoder", "loader.batch_tokens=4096",
        "loader.max_length=512", "train.optimizer.lr=0.002", "train.optimizer.warmup_steps=100",
    ]  # fmt: skip
    config = settings(folder, [*corpus, "registry=masked"], 1, steps, masked)
    train.task(config)
    return [*ENCODER, "model.dropout=0.3", f"train.init_from={config.run_dir / 'bundle'}", "train.optimizer.lr=0.001"]


def train_ours(folder: Path, corpus: list[str], seed: int, steps: int) -> float:
    """The accuracy of one seed."""
    config = settings(folder, corpus, seed, steps)
    train.task(config)
    return float(load_label_bundle(config.run_dir / "bundle").facts["scores"]["test"]["accuracy"])


def train_peer(folder: Path) -> float:
    """scikit-learn's words and pairs of words, weighted by TF-IDF."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    (shards,) = (path.parent for path in (folder / "shards").glob("*/manifest.json"))
    texts, labels = (training_lines(shards, side) for side in ("en", LABELS))
    weights = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    known = weights.fit_transform(texts)

    def accuracy(model: LogisticRegression, split: str) -> float:
        lines, truth = held_out(shards, split, ("en", LABELS))
        return float(model.score(weights.transform(lines), truth))

    models = [LogisticRegression(C=strength, max_iter=1000).fit(known, labels) for strength in STRENGTHS]
    return accuracy(max(models, key=lambda model: accuracy(model, "valid")), "test")


def training_lines(shards: Path, side: str) -> list[str]:
    """One side of the training texts, as they were before any tokenizer."""
    file = shards / read_manifest(shards).texts["train"][side]["file"]
    with zstandard.open(file, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines]
