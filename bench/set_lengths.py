"""Lengths of the sets of Multi30k, and whether the validation set's references are those that training lets expect.

    python -m bench.set_lengths MULTI30K SHARDS

`MULTI30K`: the folder of train, val and test_2016_flickr; of the test set the sources alone are read. `SHARDS`: a shard
directory of it, whose tokenizer counts pieces.
"""

import gzip
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU

from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizers import load_pair

SAMPLES, PARTS = 2000, 10
HYPHEN = re.compile(r"\w-\w")
Counts = npt.NDArray[np.float64]
Measure = Callable[[str], float]
SETS = (("train", "en"), ("val", "en"), ("test_2016_flickr", "en"), ("train", "de"), ("val", "de"))


def lines_of(folder: Path, split: str, language: str) -> list[str]:
    return gzip.decompress((folder / f"{split}.{language}.gz").read_bytes()).decode().split("\n")[:-1]


def counted(measure: Measure, lines: list[str]) -> Counts:
    return np.array([measure(line) for line in lines], np.float64)


def looks(lines: list[str], measures: dict[str, Measure]) -> list[str]:
    """A row of the first table: lengths a line, and how the lines are written."""
    words = sum(len(line.split()) for line in lines)
    sentences = sum(max(1, len(re.findall(r"[.!?](?:\s|$)", line))) for line in lines)
    return [
        f"{len(lines):,}",
        *(f"{counted(measure, lines).mean():.2f}" for measure in measures.values()),
        f"{sentences / len(lines):.2f}",
        f"{100 * sum(line.rstrip().endswith(('.', '!', '?')) for line in lines) / len(lines):.1f} %",
        f"{100 * sum(line.count(',') for line in lines) / len(lines):.1f}",
        f"{1000 * sum(len(HYPHEN.findall(line)) for line in lines) / words:.1f}",
    ]


def ratios(train: tuple[Counts, Counts], valid: tuple[Counts, Counts]) -> list[str]:
    """A row of the second table: references over sources, and what samples of training pairs of valid's size have."""
    (source, target), count = train, len(valid[0])
    draw = np.random.default_rng(1)
    rows = (draw.integers(0, len(source), count) for _ in range(SAMPLES))
    samples = np.array([target[row].sum() / source[row].sum() for row in rows])
    found = valid[1].sum() / valid[0].sum()
    mean_of = {length: target[source == length].mean() for length in np.unique(source)}
    expected = sum(mean_of.get(length, length * samples.mean()) for length in valid[0])
    parts = [b.sum() / a.sum() for a, b in zip(*(np.array_split(one, PARTS) for one in train), strict=True)]
    return [
        f"{target.sum() / source.sum():.3f}",
        f"{found:.3f}",
        f"{(found - samples.mean()) / samples.std():+.1f}",
        f"{100 * (valid[1].sum() / expected - 1):+.1f} %",
        f"{min(parts):.3f} to {max(parts):.3f}",
    ]


def main(argv: list[str]) -> int:
    """Print both tables."""
    folder, shards = map(Path, argv)
    tokenizer, moses = load_pair(shards, read_manifest(shards).tokenizer).source, BLEU(tokenize="13a").tokenizer
    measures: dict[str, Measure] = {
        "words": lambda line: len(line.split()),
        "13a": lambda line: len(moses(line).split()),
        "pieces": lambda line: len(tokenizer.encode([line])[0]),
        "characters": len,
    }
    texts = {(split, language): lines_of(folder, split, language) for split, language in SETS}
    heads = ("lines", *measures, "sentences", "ends with a mark", "commas in 100 lines", "hyphens in 1,000 words")
    print("| set |", " | ".join(heads), "|\n|---" + "|---" * len(heads) + "|")
    for (split, language), lines in texts.items():
        print(f"| {split} {language} |", " | ".join(looks(lines, measures)), "|")
    heads = ("train", "val", "standard deviations", "given the source's length", "ratio in tenths of training")
    print("\n| references over sources, in |", " | ".join(heads), "|\n|---" + "|---" * len(heads) + "|")
    for name, measure in measures.items():
        train, valid = (
            (counted(measure, texts[split, "en"]), counted(measure, texts[split, "de"])) for split in ("train", "val")
        )
        print(f"| {name} |", " | ".join(ratios(train, valid)), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
