"""The peers of `bench race`: eole by its own commands, MarianMT by `bench.race_marian`, on the pieces of our shards."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import yaml

from bench.eole_training import configuration
from bench.peers import ROOT, peer_environment, peer_python
from dragoman.model.precision import bf16_instructions
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import SPECIAL
from dragoman.model.text.tokenizer_files import load_pair

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
}


class Peer(Protocol):
    """A program that trains in a process of its own and stores weights every `SAVE_EVERY` updates."""

    name: str
    rates: tuple[float, ...]

    def command(self, home: Path, rate: float) -> list[str]:
        """Returns the command that trains anew in the new folder `home`."""

    def stored(self, home: Path) -> int:
        """Returns the updates of the newest whole checkpoint; 0: there is none."""

    def translate(self, home: Path, lines: Sequence[str]) -> list[str]:
        """Returns the lines in the target language by the newest checkpoint, beam 5, all else its own."""


class Eole:
    """eole with Transformer-tiny's sizes in its fastest precision."""

    name = "eole"
    rates: tuple[float, ...] = (0.25, 0.5, 1.0)  # of noam, which multiplies them by 1 / sqrt(width x updates)

    def __init__(self, shards: Path, texts: Path, dropout: float) -> None:
        """`texts`: a new folder for the pieces of all its trainings."""
        self._shards, self._texts, self._dropout = shards, texts, dropout
        write_pieces(shards, texts)

    def command(self, home: Path, rate: float) -> list[str]:
        home.mkdir(parents=True)
        settings: dict[str, Any] = configuration(self._texts, 100, "bf16" if bf16_instructions() else "fp32")
        settings["save_data"] = str(home / "data")
        settings["training"] |= {
            **RECIPE,
            "model_path": str(home / "model"),
            "learning_rate": rate,
            "dropout": [self._dropout],
            "attention_dropout": [self._dropout],
            "train_steps": 10**6,
            "save_checkpoint_steps": SAVE_EVERY,
            "keep_checkpoint": 2,
        }
        (home / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        return eole("train", "-config", str(home / "config.yaml"))

    def stored(self, home: Path) -> int:
        whole = (path for path in (home / "model").glob("step_*") if (path / "config.json").exists())  # written last
        return max((int(path.name.removeprefix("step_")) for path in whole), default=0)

    def translate(self, home: Path, lines: Sequence[str]) -> list[str]:
        pair = load_pair(self._shards, read_manifest(self._shards).tokenizer)
        encoded = (" ".join(pair.source.pieces(ids)) for ids in pair.source.encode(lines))
        (home / "lines.txt").write_text("".join(f"{line}\n" for line in encoded), encoding="utf-8")
        options = {
            "model_path": home / "model" / f"step_{self.stored(home)}",
            "src": home / "lines.txt",
            "output": home / "out.txt",
            "beam_size": BEAM,
            "batch_size": SENTENCES,
        }
        call(eole("predict", *(word for key, value in options.items() for word in (f"-{key}", str(value)))))
        translations = (home / "out.txt").read_text(encoding="utf-8").split("\n")[:-1]
        return [line.replace(" ", "").replace("▁", " ").strip() for line in translations]


class Marian:
    """transformers' MarianMT with Transformer-tiny's sizes by Adam, on the batches of our loader."""

    name = "MarianMT"
    rates: tuple[float, ...] = (0.001, 0.002, 0.004)  # after the warm-up; from there on with 1 / sqrt(updates)

    def __init__(self, shards: Path, dropout: float) -> None:
        self._shards, self._dropout = shards, dropout

    def command(self, home: Path, rate: float) -> list[str]:
        home.mkdir(parents=True)
        return marian("train", str(self._shards), str(home), str(rate), str(self._dropout))

    def stored(self, home: Path) -> int:
        return max((int(path.name) for path in (home / "model").glob("[0-9]*")), default=0)

    def translate(self, home: Path, lines: Sequence[str]) -> list[str]:
        (home / "lines.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        call(marian("translate", str(self._shards), str(home), str(home / "model" / str(self.stored(home)))))
        return (home / "out.txt").read_text(encoding="utf-8").split("\n")[:-1]


def eole(*words: str) -> list[str]:
    """Returns its command line in the peers' environment."""
    return [str(peer_python().with_name("eole")), *words]


def marian(*words: str) -> list[str]:
    return [str(peer_python()), "-m", "bench.race_marian", *words]


def one_thread() -> dict[str, str]:
    return {**peer_environment(), "OMP_NUM_THREADS": "1"}


def call(command: list[str]) -> None:
    """Raises RuntimeError: the command failed."""
    done = subprocess.run(command, cwd=ROOT, env=one_thread(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr[-2000:]}")


def write_pieces(shards: Path, folder: Path) -> None:
    """Training pairs as our tokenizer's pieces with blanks between, and the vocabulary, as eole reads them.

    Pairs are shuffled once: eole shuffles within its buckets of 30,000 only, and a corpus may be sorted.
    """
    reader = ShardReader(shards, "train")
    pair = load_pair(shards, read_manifest(shards).tokenizer)
    folder.mkdir(parents=True)
    sides: tuple[list[str], list[str]] = ([], [])
    for number in range(reader.chunks):
        chunk = reader.chunk(number)
        packed = (chunk.source, chunk.source_offsets), (chunk.target, chunk.target_offsets)
        for lines, (ids, bounds) in zip(sides, packed, strict=True):
            for begin, end in pairwise(bounds):
                lines.append(" ".join(pair.target.pieces(ids[begin : end - 1])) + "\n")  # without the end of sentence
    order = np.random.default_rng(1).permutation(len(sides[0]))
    for name, lines in zip(("source", "target"), sides, strict=True):
        (folder / f"{name}.txt").write_text("".join(lines[place] for place in order), encoding="utf-8")
    pieces = pair.target.pieces(range(len(SPECIAL), pair.target.vocabulary))
    (folder / "vocabulary.txt").write_text("".join(f"{piece}\t1\n" for piece in pieces), encoding="utf-8")


@contextmanager
def training(peer: Peer, home: Path, rate: float) -> Iterator["Training"]:
    """Trains anew within the block, as long as it lasts."""
    shutil.rmtree(home, ignore_errors=True)
    command = peer.command(home, rate)
    with (
        (home / "train.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(command, cwd=ROOT, env=one_thread(), stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield Training(peer, home, process)
        finally:  # also where the measurement is interrupted
            process.kill()


class Training:
    """A training of a peer that stands still unless `until` runs."""

    def __init__(self, peer: Peer, home: Path, process: "subprocess.Popen[bytes]") -> None:
        self._peer, self._home, self._process, self._updates = peer, home, process, 0

    def until(self, seconds: float) -> float:
        """Trains for so many CPU seconds and until it then stores weights; returns its CPU seconds by then.

        Raises RuntimeError: the program ended by itself.
        """
        self._process.send_signal(signal.SIGCONT)
        while self._process.poll() is None:
            time.sleep(0.2)
            spent, updates = cpu_seconds(self._process.pid), self._peer.stored(self._home)
            if spent >= seconds and updates > self._updates:
                self._process.send_signal(signal.SIGSTOP)
                self._updates = updates
                return spent
        log = (self._home / "train.log").read_text(encoding="utf-8")
        raise RuntimeError(f"{self._peer.name} ended with {self._process.returncode}: {log[-2000:]}")

    def translate(self, lines: Sequence[str]) -> list[str]:
        return self._peer.translate(self._home, lines)


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a process of this machine."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system
