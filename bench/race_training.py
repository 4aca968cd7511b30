"""A training of `bench race` in a process of its own: `python -m bench.race_training FOLDER EVERY WORDS...`.

It trains what `dragoman train WORDS...` would on one process and one thread. At every EVERY-th step it validates,
writes the weights to FOLDER, and prints one JSON line: the step, the CPU and wall seconds of the training so far, and
the validation loss. What validating and writing take is not counted.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch
from safetensors.torch import save_file

from dragoman.conf import compose
from dragoman.model.bundles.weights import distinct_weights
from dragoman.model.networks.architectures import architecture
from dragoman.model.precision import decide
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks.translation import Pairs
from dragoman.pipelines.tasks.workers import with_lanes
from dragoman.pipelines.training.loop import Trainer

P = ParamSpec("P")
T = TypeVar("T")


class Clock:
    """Seconds of a clock, but for those within calls that are left out."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read, self._begun, self._left_out = read, read(), 0.0

    def seconds(self) -> float:
        return self._read() - self._begun - self._left_out

    def without(self, call: Callable[P, T]) -> Callable[P, T]:
        """Returns the function, whose time no longer counts."""

        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            before = self._read()
            try:
                return call(*args, **kwargs)
            finally:
                self._left_out += self._read() - before

        return timed


def train(folder: Path, every: int, words: list[str]) -> None:
    """Trains and prints a line for each validation."""
    torch.set_num_threads(1)
    config = with_lanes(compose.typed(Config, compose.values([*words, "cluster.backend=local"])), [])
    learning = Pairs(config)
    network = learning.network
    ranks = Ranks(0, 1, torch.device("cpu"))
    precision = decide(network, ranks.device).precision
    loss = architecture(config.model["architecture"]).loss
    settings = replace(config.train, precision=precision, evaluate_every=every, checkpoint_every=10**9)
    loader = learning.loader(0, 1)
    held_out = learning.held_out(ranks)
    trainer = Trainer(network, loss, loader, config.loader.lanes, settings, folder, ranks, config.seed, held_out)
    cpu, wall = Clock(time.process_time), Clock(time.monotonic)

    def report(step: int, metrics: dict[str, float]) -> None:
        if "valid_loss" in metrics:
            seconds, waited = round(cpu.seconds(), 2), round(wall.seconds(), 2)
            save_file(distinct_weights(network), folder / f"{step}.safetensors")
            line = {"step": step, "seconds": seconds, "wall": waited, "loss": metrics["valid_loss"]}
            print(json.dumps(line), flush=True)

    trainer.evaluate = wall.without(cpu.without(trainer.evaluate))  # type: ignore[method-assign]
    trainer.save = wall.without(cpu.without(trainer.save))  # type: ignore[method-assign]
    try:
        trainer.run(wall.without(cpu.without(report)))
    finally:
        loader.close()


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
