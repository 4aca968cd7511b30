"""Text to shards, cleaning to BPE all in, against SentencePiece and one WebDataset sample a pair, Mtok/s a core.

The line counts the tokenizer's training in both; `shard-encode` above it in neither: the peer is then given the trained
model, and the seconds of ours are taken off.

`python -m bench shard --source FILE --target FILE` takes real text (plain or .gz) instead of made-up words.
"""

import argparse
import gzip
import io
import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.result import Result
from bench.sample_text import write_text
from dragoman.conf.compose import typed, values
from dragoman.model.text.normalise import normalise
from dragoman.model.text.subword_training import THREADS
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.loaders.texts import unpack_split
from dragoman.pipelines.shard import shard

ROUNDS = 3
BATCH = 10_000  # lines that the peer encodes in one call


def run(quick: bool, args: list[str]) -> Result:
    """One core each, all lines."""
    parser = argparse.ArgumentParser(prog="python -m bench shard")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    given = parser.parse_args(args)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, target = given.source, given.target
        if source is None or target is None:
            source, target = write_text(folder, 60_000 if quick else 400_000)
        directory = folder / "shards"
        config = configured(directory, source.resolve(), target.resolve())
        rates: dict[str, list[float]] = {"ours": [], "ours encode": [], "peer": [], "peer encode": []}
        for _ in range(1 if quick else ROUNDS):
            shutil.rmtree(directory, ignore_errors=True)
            began = time.perf_counter()
            split = shard(config).manifest.splits["train"]
            seconds = time.perf_counter() - began
            tokens = split.source_tokens + split.target_tokens
            rates["ours"].append(tokens / seconds / 1e6)
            rates["ours encode"].append(tokens / (seconds - _training(config, directory)) / 1e6)
            began = time.perf_counter()
            processor = _train_peer(source, target, config.tokenizer)
            training = time.perf_counter() - began
            theirs = _write_peer(processor, source, target, folder / "plain.tar")
            seconds = time.perf_counter() - began
            rates["peer"].append(theirs / seconds / 1e6)
            rates["peer encode"].append(theirs / (seconds - training) / 1e6)
    found = {name: median(values) for name, values in rates.items()}
    print(f"{tokens:,} tokens")
    print(Result("shard-encode", found["ours encode"], found["peer encode"], "").line())
    return Result("shard", found["ours"], found["peer"], "Mtok/s sharded, the tokenizer's training included, one core")


def _training(config: Config, directory: Path) -> float:
    """Seconds that the tokenizer takes to train on what the shards hold."""
    sides = zip(*unpack_split(directory, "train"), strict=True)
    source, target = (list(side) for side in sides)
    began = time.perf_counter()
    train_pair(config.tokenizer, source, target, config.seed)
    return time.perf_counter() - began


def configured(directory: Path, source: Path, target: Path, *overrides: str) -> Config:
    """The configuration of `dragoman shard` for these files, in this process."""
    words = [
        "corpus=moses",
        "corpus.check=off",  # it is made up
        f"corpus.train.source={source}",
        f"corpus.train.target={target}",
        f"paths.shards={directory}",
        "cluster.backend=local",
        *overrides,
    ]
    return typed(Config, values(words))


def _train_peer(source: Path, target: Path, config: TokenizerConfig) -> Any:
    """A processor by SentencePiece's own trainer, on as many lines and with the same vocabulary as ours."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for path in (source, target) for line in islice(_lines(path), config.train_lines)),
        model_writer=model,
        model_type=config.type,
        vocab_size=config.vocabulary,
        hard_vocab_limit=False,
        character_coverage=config.character_coverage,
        num_threads=THREADS,
        minloglevel=3,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def _write_peer(processor: Any, source: Path, target: Path, out: Path) -> int:
    """What one would write with the two libraries' own means: encode lines in batches, write a sample a pair."""
    import webdataset

    tokens, numbers = 0, count()
    left, right = _lines(source), _lines(target)
    with webdataset.TarWriter(str(out), mtime=0) as writer:
        while lines := list(islice(left, BATCH)):
            sides = lines, list(islice(right, BATCH))
            encoded = [
                processor.encode([normalise(line) for line in side], add_eos=True, num_threads=1) for side in sides
            ]
            for ids in zip(*encoded, strict=True):
                arrays = [np.array(row, dtype=np.uint16) for row in ids]
                writer.write({"__key__": f"{next(numbers):08d}", "src.npy": arrays[0], "tgt.npy": arrays[1]})
                tokens += sum(map(len, ids))
    return tokens


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for line in file:
            yield line.decode().rstrip("\n")
