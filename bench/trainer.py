"""A `Trainer` as benchmarks run it, by our kernels or by torch's own, and the sizes that they measure by default."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dragoman.model import device
from dragoman.model.networks.architectures import architecture, build_network
from dragoman.model.networks.transformer import TransformerConfig
from dragoman.model.precision import decide
from dragoman.model.settings import Precision
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig, TrainConfig
from dragoman.pipelines.training.loop import Loader, Trainer

VOCABULARY, TOKENS = 10_000, 4096
WARM_UP = 4  # steps before the clock starts
TINY = TransformerConfig("transformer", "transformer_tiny", 128, 4, 256, 4, 4, dropout=0.3)


def default_precision(model: Any) -> Precision:
    """What `dragoman train` takes for a network (by its configuration) on this machine's CPU."""
    return decide(build_network(model, VOCABULARY, VOCABULARY), torch.device("cpu")).precision


@contextlib.contextmanager
def plain_paths() -> Iterator[None]:
    """Within the block a CPU takes what a GPU takes: SDPA, nn.Dropout, F.cross_entropy."""
    before = device.KERNELS["cpu"]
    device.KERNELS["cpu"] = replace(before, attention="sdpa", dropout="native", cross_entropy="native")
    try:
        yield
    finally:
        device.KERNELS["cpu"] = before


@contextlib.contextmanager
def trainer(
    shards: Path,
    run_dir: Path,
    precision: Precision,
    tokens: int,
    model: Any = TINY,
    loader: Loader | None = None,
) -> Iterator[Trainer]:
    """A trainer of a network (by its configuration) on one lane, that evaluates and saves only at its end.

    Without a `loader` it reads pairs, as translation networks do.
    """
    torch.manual_seed(1)
    never = 10**9
    config = TrainConfig(precision=precision, evaluate_every=never, checkpoint_every=never, log_every=never)
    config.optimizer.lr, config.optimizer.warmup_steps = 0.005, 2000
    reader = ShardReader(shards, "train")
    loader = loader or LaneLoader(reader, LoaderConfig(lanes=1, batch_tokens=tokens), 1)
    pair = load_pair(shards, reader.manifest.tokenizer)
    network = build_network(model, pair.source.vocabulary, pair.target.vocabulary)
    made = Trainer(
        network,
        architecture(model.architecture).loss,
        loader,
        lanes=1,
        config=config,
        run=run_dir,
        ranks=Ranks(0, 1, torch.device("cpu")),
        seed=1,
        held_out=lambda: [],
    )
    try:
        yield made
    finally:
        loader.close()


def training_speed(
    shards: Path,
    steps: int,
    precision: Precision,
    tokens: int = TOKENS,
    model: Any = TINY,
    loader: Loader | None = None,
    warm_up: int = WARM_UP,
) -> float:
    """Our loop as `dragoman train` runs it in one process, journal and all; target tokens/s after the warm-up."""
    with (
        tempfile.TemporaryDirectory() as folder,
        trainer(shards, Path(folder), precision, tokens, model, loader) as ours,
    ):
        ours.config = replace(ours.config, max_steps=warm_up)
        ours.run(lambda step, values: None)
        before, began = ours.progress.items, time.perf_counter()
        ours.config = replace(ours.config, max_steps=warm_up + steps)
        ours.run(lambda step, values: None)
        return (ours.progress.items - before) / (time.perf_counter() - began)
