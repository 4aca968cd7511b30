"""Text to shards, cleaning to BPE all in, against one WebDataset sample a pair, Mtok/s a core.

`python -m bench shard --source FILE --target FILE` takes real text (plain or .gz) instead of made-up words.
"""

import argparse
import gzip
import shutil
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.result import Result, rate
from bench.sample_text import write_text
from conf.compose import typed, values
from model.text.normalise import normalise
from model.text.tokenizer import train_pair
from pipelines.config import Config
from pipelines.shard import shard
from pipelines.unpack import unpacked

ROUNDS = 3


def run(quick: bool, args: list[str]) -> Result:
    """One core each. The peer is given the trained tokenizer, so our training of it is timed and taken off as well."""
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
        ours, whole, peers = [], [], []
        for _ in range(1 if quick else ROUNDS):
            shutil.rmtree(directory, ignore_errors=True)
            began = time.perf_counter()
            split = shard(config).manifest.splits["train"]
            seconds = time.perf_counter() - began
            tokens = split.source_tokens + split.target_tokens
            whole.append(tokens / seconds / 1e6)
            ours.append(tokens / (seconds - _training(config, directory)) / 1e6)
            peers.append(rate(lambda: _plain(directory, source, target, folder / "plain.tar", 20_000)) / 1e6)
    print(f"{tokens:,} tokens; {median(whole):.2f} Mtok/s with the training of the tokenizer")
    return Result("shard", median(ours), median(peers), "Mtok/s sharded, one core")


def _training(config: Config, directory: Path) -> float:
    """Seconds that the tokenizer takes to train on what the shards hold."""
    sides = zip(*unpacked(directory, "train"), strict=True)
    source, target = (list(side) for side in sides)
    began = time.perf_counter()
    train_pair(config.tokenizer, source, target, config.seed)
    return time.perf_counter() - began


def configured(directory: Path, source: Path, target: Path, *overrides: str) -> Config:
    """The configuration of `dragoman shard` for these files, in this process."""
    words = [
        "corpus=moses",
        f"corpus.train.source={source}",
        f"corpus.train.target={target}",
        f"paths.shards={directory}",
        "cluster.backend=local",
        *overrides,
    ]
    return typed(Config, values(words))


def _plain(directory: Path, source: Path, target: Path, out: Path, lines: int) -> int:
    """What one would write with the two libraries' own means: encode a pair, write a sample."""
    import sentencepiece
    import webdataset

    processor = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    tokens = 0
    opened = [(gzip.open if path.suffix == ".gz" else open)(path, "rb") for path in (source, target)]
    with webdataset.TarWriter(str(out), mtime=0) as writer, opened[0] as left, opened[1] as right:
        for number, pair in enumerate(islice(zip(left, right, strict=True), lines)):
            sample: dict[str, Any] = {"__key__": f"{number:08d}"}
            for name, raw in zip(("src.npy", "tgt.npy"), pair, strict=True):
                ids = [*processor.encode(normalise(raw.decode().rstrip("\n"))), processor.eos_id()]
                sample[name] = np.array(ids, dtype=np.uint16)
                tokens += len(ids)
            writer.write(sample)
    return tokens
