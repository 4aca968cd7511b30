"""Training Transformer-tiny at 4,096 tokens a batch, target tokens/s: ours against MarianMT and eole, in turns.

    python -m bench train [--quick] [--threads N]
    python -m bench train --curve          bf16 with our kernels against the plain fp32 loop, 2,000 steps
    python -m bench train --device cuda    Transformer-base and big in bf16, beside the matmul rate (no peer needed)

The plain loop is our network with torch's own attention, dropout and cross-entropy: what the kernels of
model/device.py are worth. All train on the same made-up pairs with the lengths of Multi30k (15 tokens on average).
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.peers import ROOT, peer_python
from bench.result import Result, in_turns
from bench.sample_shards import write_sample_shards
from bench.sample_text import write_ids
from model import device
from model.networks.architectures import any_network, architecture
from model.networks.transformer import TransformerConfig
from model.precision import decide
from model.settings import Precision
from model.text.tokenizers import load_pair
from pipelines.cluster.ranks import Ranks
from pipelines.loaders.pairs import LaneLoader
from pipelines.settings import LoaderConfig, TrainConfig
from pipelines.shards.reader import ShardReader
from pipelines.training.loop import Loader, Trainer

VOCABULARY, TOKENS = 10_000, 4096
TINY = TransformerConfig("transformer", "transformer_tiny", 128, 4, 256, 4, 4, dropout=0.3)
WARM_UP = 4  # steps before the clock starts


def run(quick: bool, args: list[str]) -> Result:
    """Tokens are the real ones of the target side, EOS included."""
    parser = argparse.ArgumentParser(prog="python -m bench train")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--curve", action="store_true")
    options = parser.parse_args(args)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        if options.device == "cuda":
            from bench.gpu_training import gpu_training

            return gpu_training(Path(folder), quick)
        pairs = write_ids(30_000, VOCABULARY)
        shards = write_sample_shards(Path(folder) / "shards", pairs, VOCABULARY)
        if options.curve:
            from bench.loss_curve import loss_curve

            return loss_curve(Path(folder), quick)
        from bench.eole_training import eole

        steps, rounds = (8, 1) if quick else (30, 3)
        found = in_turns(
            rounds,
            ours=lambda: training_speed(shards, steps, default_precision(TINY)),
            ours_fp32=lambda: training_speed(shards, max(4, steps // 2), "fp32"),
            plain_fp32=lambda: plain_speed(shards, max(4, steps // 3)),
            marian=lambda: marian(shards, max(4, steps // 3), options.threads),
            eole=lambda: eole(Path(folder), pairs, VOCABULARY, max(4, steps // 3), options.threads),
        )
    for name, value in found.items():
        print(f"{name:<12} {value:10,.0f} target tokens/s")
    return Result(
        "train", found["ours"], max(found["marian"], found["eole"]), "target tokens/s, against the faster peer"
    )


def default_precision(model: Any) -> Precision:
    """What `dragoman train` takes for a network (by its configuration) on this machine's CPU."""
    root = Path(os.environ.get("DRAGOMAN_HOME", "artifacts"))
    return decide(any_network(model, VOCABULARY, VOCABULARY), torch.device("cpu"), root).precision


def training_speed(
    shards: Path,
    steps: int,
    precision: Precision,
    tokens: int = TOKENS,
    model: Any = TINY,
    loader: Loader | None = None,
) -> float:
    """Our loop as `dragoman train` runs it in one process, journal and all; target tokens/s after the warm-up."""
    with (
        tempfile.TemporaryDirectory() as folder,
        trainer(shards, Path(folder), precision, tokens, model, loader) as ours,
    ):
        ours.config = replace(ours.config, max_steps=WARM_UP)
        ours.run(lambda step, values: None)
        before, began = ours.progress.items, time.perf_counter()
        ours.config = replace(ours.config, max_steps=WARM_UP + steps)
        ours.run(lambda step, values: None)
        return (ours.progress.items - before) / (time.perf_counter() - began)


def plain_speed(shards: Path, steps: int) -> float:
    """The same in fp32 by torch's own modules."""
    with plain_paths():
        return training_speed(shards, steps, "fp32")


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
    network = any_network(model, pair.source.vocabulary, pair.target.vocabulary)
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


def marian(shards: Path, steps: int, threads: int) -> float:
    """transformers' MarianMT of the same sizes on the same batches, in a process of the peers' environment."""
    words = [str(peer_python()), "-m", "bench.marian_training", str(shards), str(steps), str(WARM_UP), str(threads)]
    out = subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=sys.stderr, text=True).stdout
    return float(out.split()[-1])
