"""A training of `bench race` in a process of its own: `python -m bench.race_training FOLDER EVERY WORDS...`.

It trains what `dragoman train WORDS...` would on one process and one thread. At every EVERY-th step it validates,
writes the weights to FOLDER, and prints one JSON line: the step, the CPU and wall seconds of the training so far, and
the validation loss. What validating and writing take is not counted.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save_file

from dragoman.conf import compose
from dragoman.model.bundles.weights import distinct_weights
from dragoman.model.networks.architectures import architecture
from dragoman.model.precision import decide
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.settle import settle
from dragoman.pipelines.tasks.translation import Pairs
from dragoman.pipelines.tasks.workers import with_lanes
from dragoman.pipelines.training.loop import Trainer


def configuration(verb: str, words: Sequence[str]) -> Config:
    """Returns the settings of a verb by these words, and what follows from the data, for one process."""
    words = [*words, "cluster.backend=local"]
    return compose.typed(Config, compose.values(words, settle=partial(settle, verb)))


class Clock:
    """Sums up the seconds of a clock that end with `count`; those that end with `skip` are left out."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read, self._since, self.seconds = read, read(), 0.0

    def count(self) -> None:
        before = self._since
        self.skip()
        self.seconds += self._since - before

    def skip(self) -> None:
        self._since = self._read()


def train(folder: Path, every: int, words: list[str]) -> None:
    """Trains and prints a line for each validation."""
    torch.set_num_threads(1)
    config = with_lanes(configuration("train", words), [])
    learning = Pairs(config)
    network = learning.network
    ranks = Ranks(0, 1, torch.device("cpu"))
    precision = decide(network, ranks.device).precision
    loss = architecture(config.model["architecture"]).loss
    settings = replace(
        config.train,
        precision=precision,
        log_every=1,  # a report after each step, which the clocks count
        evaluate_every=every,
        checkpoint_every=10**9,
        checkpoint_minutes=0.0,
    )
    loader = learning.loader(0, 1)
    held_out = learning.held_out(ranks)
    trainer = Trainer(network, loss, loader, config.loader.lanes, settings, folder, ranks, config.seed, held_out)
    cpu, wall = Clock(time.process_time), Clock(time.monotonic)

    def report(step: int, metrics: dict[str, float]) -> None:
        if "valid_loss" not in metrics:
            cpu.count()
            wall.count()
            return
        save_file(distinct_weights(network), folder / f"{step}.safetensors")
        seconds, waited = round(cpu.seconds, 2), round(wall.seconds, 2)
        line = {"step": step, "seconds": seconds, "wall": waited, "loss": metrics["valid_loss"]}
        print(json.dumps(line), flush=True)
        cpu.skip()
        wall.skip()

    try:
        trainer.run(report)
    finally:
        loader.close()


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
