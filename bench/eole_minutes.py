"""The peer of `bench minutes`: eole's own commands on the pieces of our shards, as long as ours trains."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bench.eole_training import configuration
from bench.peers import peer_python
from dragoman.model.precision import bf16_instructions
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import SPECIAL
from dragoman.model.text.tokenizers import load_pair

SAVE_EVERY = 50  # updates: what is trained after the last of them does not count
BEAM, SENTENCES = 5, 64
# What those who train with eole set, with short updates and a short warm-up, for there are only minutes. By BLEU on 500
# lines of validation of Multi30k en-fr after five of them (one run each): updates of 1,024 tokens 14.1, of 4,096 10.4,
# both at a rate of 1 after 400 updates; at half of it after 500 38.5. A quarter has a higher loss after 1,100 updates.
RECIPE = {
    "batch_size": 1024,
    "learning_rate": 0.5,
    "decay_method": "noam",
    "warmup_steps": 500,
    "adam_beta2": 0.998,
    "param_init_method": "xavier_uniform",
    "dropout": [0.1],
    "attention_dropout": [0.1],
}
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def write_pieces(shards: Path, home: Path) -> None:
    """Training pairs as our tokenizer's pieces with blanks between, and the vocabulary, as eole reads them.

    Pairs are shuffled once: eole shuffles within its buckets of 30,000 only, and a corpus may be sorted.
    """
    reader = ShardReader(shards, "train")
    pair = load_pair(shards, read_manifest(shards).tokenizer)
    home.mkdir(parents=True, exist_ok=True)
    sides: tuple[list[str], list[str]] = ([], [])
    for number in range(reader.chunks):
        chunk = reader.chunk(number)
        packed = (chunk.source, chunk.source_offsets), (chunk.target, chunk.target_offsets)
        for lines, (ids, bounds) in zip(sides, packed, strict=True):
            for begin, end in pairwise(bounds):
                lines.append(" ".join(pair.target.pieces(ids[begin : end - 1])) + "\n")  # without the end of sentence
    order = np.random.default_rng(1).permutation(len(sides[0]))
    for name, lines in zip(("source", "target"), sides, strict=True):
        (home / f"{name}.txt").write_text("".join(lines[place] for place in order), encoding="utf-8")
    pieces = pair.target.pieces(range(len(SPECIAL), pair.target.vocabulary))
    (home / "vocabulary.txt").write_text("".join(f"{piece}\t1\n" for piece in pieces), encoding="utf-8")


def train_for(minutes: float, home: Path) -> None:
    """Train until the minutes are over, its start included."""
    end = time.monotonic() + 60 * minutes
    train_while(lambda: time.monotonic() < end, home)


def train_while(wanted: Callable[[], bool], home: Path) -> None:
    """Train as long as it is wanted, its start included.

    Raises:
        RuntimeError: eole ended by itself.
    """
    settings: dict[str, Any] = configuration(home, 100, "bf16" if bf16_instructions() else "fp32")
    settings["training"] |= {**RECIPE, "train_steps": 10**6, "save_checkpoint_steps": SAVE_EVERY, "keep_checkpoint": 2}
    (home / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    log = (home / "train.log").open("w", encoding="utf-8")
    command = eole("train", "-config", str(home / "config.yaml"))
    with log, subprocess.Popen(command, env=ONE_THREAD, stdout=log, stderr=subprocess.STDOUT) as running:
        try:
            while wanted() and running.poll() is None:
                time.sleep(0.5)
            ended = running.poll()
        finally:  # also where the measurement is interrupted
            running.kill()
    if ended is not None:
        raise RuntimeError(f"eole ended with exit code {ended}: {(home / 'train.log').read_text()[-2000:]}")


def forget(home: Path) -> None:
    """Leave no checkpoint of a trial behind."""
    shutil.rmtree(home / "model", ignore_errors=True)


def newest(home: Path) -> tuple[int, Path]:
    """The last whole checkpoint and its updates.

    Raises:
        RuntimeError: there is none.
    """
    whole = (path for path in (home / "model").glob("step_*") if (path / "vocab.json").exists())  # written last
    found = {int(path.name.removeprefix("step_")): path for path in whole}
    if not found:
        raise RuntimeError(f"{home}: eole saved nothing in its time: {(home / 'train.log').read_text()[-2000:]}")
    return max(found.items())


def translate(shards: Path, home: Path, lines: Sequence[str]) -> list[str]:
    """The lines in the target language by the last checkpoint, beam 5, all else eole's own."""
    pair = load_pair(shards, read_manifest(shards).tokenizer)
    encoded = (" ".join(pair.source.pieces(ids)) for ids in pair.source.encode(lines))
    (home / "test.txt").write_text("".join(f"{line}\n" for line in encoded), encoding="utf-8")
    wishes = {"model_path": newest(home)[1], "src": home / "test.txt", "output": home / "out.txt", "beam_size": BEAM}
    words = [word for key, value in {**wishes, "batch_size": SENTENCES}.items() for word in (f"-{key}", str(value))]
    done = subprocess.run(eole("predict", *words), env=ONE_THREAD, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"eole predict ended with exit code {done.returncode}: {done.stderr[-2000:]}")
    found = (home / "out.txt").read_text(encoding="utf-8").split("\n")[:-1]
    return [line.replace(" ", "").replace("▁", " ").strip() for line in found]


def eole(*words: str) -> list[str]:
    """Its command line in the peers' environment."""
    return [str(peer_python().with_name("eole")), *words]
