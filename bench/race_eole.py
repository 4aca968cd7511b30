"""The peer of `bench race`: eole's own commands on the pieces of our shards."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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

SAVE_EVERY = 50  # updates
BEAM, SENTENCES = 5, 64
# What those who train with eole set, with short updates and a short warm-up, for there are only minutes. By BLEU on 500
# lines of validation of Multi30k en-fr after five of them (one run each): updates of 1,024 tokens 14.1, of 4,096 10.4,
# both at a rate of 1 after 400 updates; at half of it after 500 38.5.
RECIPE = {
    "batch_size": 1024,
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


@contextmanager
def training(home: Path, rate: float, dropout: float) -> Iterator["Training"]:
    """Trains anew within the block, as long as it lasts."""
    shutil.rmtree(home / "model", ignore_errors=True)
    settings: dict[str, Any] = configuration(home, 100, "bf16" if bf16_instructions() else "fp32")
    settings["training"] |= {
        **RECIPE,
        "learning_rate": rate,
        "dropout": [dropout],
        "attention_dropout": [dropout],
        "train_steps": 10**6,
        "save_checkpoint_steps": SAVE_EVERY,
        "keep_checkpoint": 2,
    }
    (home / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = eole("train", "-config", str(home / "config.yaml"))
    with (
        (home / "train.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(command, env=ONE_THREAD, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield Training(home, process)
        finally:  # also where the measurement is interrupted
            process.kill()


class Training:
    """A training of eole that stands still while its weights are scored."""

    def __init__(self, home: Path, process: "subprocess.Popen[bytes]") -> None:
        self._home, self._process, self._updates = home, process, 0

    def until(self, seconds: float) -> float:
        """Trains for so many CPU seconds and until it then stores weights; returns its CPU seconds by then.

        Raises RuntimeError: eole ended by itself.
        """
        self._process.send_signal(signal.SIGCONT)
        while self._process.poll() is None:
            time.sleep(0.2)
            spent, updates = cpu_seconds(self._process.pid), stored(self._home)
            if spent >= seconds and updates > self._updates:
                self._process.send_signal(signal.SIGSTOP)
                self._updates = updates
                return spent
        raise RuntimeError(
            f"eole ended with {self._process.returncode}: {(self._home / 'train.log').read_text()[-2000:]}"
        )


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a process of this machine."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system


def stored(home: Path) -> int:
    """Returns the updates of the newest whole checkpoint; 0: there is none."""
    whole = (path for path in (home / "model").glob("step_*") if (path / "vocab.json").exists())  # written last
    return max((int(path.name.removeprefix("step_")) for path in whole), default=0)


def translate(shards: Path, home: Path, lines: Sequence[str]) -> list[str]:
    """Returns the lines in the target language by the newest checkpoint, beam 5, all else eole's own."""
    pair = load_pair(shards, read_manifest(shards).tokenizer)
    encoded = (" ".join(pair.source.pieces(ids)) for ids in pair.source.encode(lines))
    (home / "lines.txt").write_text("".join(f"{line}\n" for line in encoded), encoding="utf-8")
    options = {
        "model_path": home / "model" / f"step_{stored(home)}",
        "src": home / "lines.txt",
        "output": home / "out.txt",
        "beam_size": BEAM,
        "batch_size": SENTENCES,
    }
    words = [word for key, value in options.items() for word in (f"-{key}", str(value))]
    done = subprocess.run(eole("predict", *words), env=ONE_THREAD, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"eole predict ended with exit code {done.returncode}: {done.stderr[-2000:]}")
    translations = (home / "out.txt").read_text(encoding="utf-8").split("\n")[:-1]
    return [line.replace(" ", "").replace("▁", " ").strip() for line in translations]


def eole(*words: str) -> list[str]:
    """Returns its command line in the peers' environment."""
    return [str(peer_python().with_name("eole")), *words]
