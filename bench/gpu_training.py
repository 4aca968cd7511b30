"""`python -m bench train --device cuda`: Transformer-base and big in bf16 on a GPU, beside its matmul rate.

Needs torch and numpy alone. FLOPs a target token are counted as 6 x the parameters that a token meets in products (the
source's through the encoder, scaled by the two sides' tokens, the target's through decoder and output layer), plus the
attention's own; embedding look-ups count nothing.
"""

import time
from dataclasses import replace
from pathlib import Path

import torch

from bench.result import Result
from bench.sample_shards import write_sample_shards
from bench.sample_text import write_ids
from dragoman.model.networks.architectures import architecture, build_network
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.networks.transformer import TransformerConfig
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import PAD
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig, TrainConfig
from dragoman.pipelines.training.loop import Trainer

VOCABULARY, TOKENS = 10_000, 32_768
MODELS = {
    "base": TransformerConfig("transformer", "base", 512, 8, 2048, 6, 6, dropout=0.1),
    "big": TransformerConfig("transformer", "big", 1024, 16, 4096, 6, 6, dropout=0.3),
}


def gpu_training(folder: Path, quick: bool) -> Result:
    """ours: TFLOP/s of the better model; baseline: TFLOP/s of an 8,192 x 8,192 bf16 product in the same run."""
    if not torch.cuda.is_available():
        raise SystemExit("bench train --device cuda: torch sees no GPU here")
    shards = write_sample_shards(folder / "shards", write_ids(200_000, VOCABULARY), VOCABULARY)
    peak = matmul_rate()
    print(f"{torch.cuda.get_device_name()}: bf16 product {peak / 1e12:.0f} TFLOP/s, {TOKENS:,} tokens a batch")
    best = 0.0
    for name, config in MODELS.items():
        speed, flops = training(shards, folder / name, config, 10 if quick else 60)
        best = max(best, flops)
        print(
            f"{name:<5} {speed:10,.0f} target tokens/s  {flops / 1e12:6.1f} TFLOP/s  {flops / peak:5.1%} of the product"
        )
    return Result("train-cuda", best / 1e12, peak / 1e12, "TFLOP/s, training, one large product", "baseline")


def matmul_rate(size: int = 8192, rounds: int = 20) -> float:
    """FLOP/s of a square bf16 product on random data."""
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(rounds):
        a @ b
    torch.cuda.synchronize()
    return 2 * size**3 * rounds / (time.perf_counter() - began)


def training(shards: Path, run: Path, config: TransformerConfig, steps: int) -> tuple[float, float]:
    """(target tokens/s, FLOP/s) of the loop after a warm-up of 10 steps."""
    torch.manual_seed(1)
    never = 10**9
    settings = TrainConfig(
        precision="bf16", evaluate_every=never, checkpoint_every=never, log_every=never, max_steps=10
    )
    loader = LaneLoader(ShardReader(shards, "train"), LoaderConfig(lanes=1, batch_tokens=TOKENS), 1)
    counted = Counting(loader)
    network = build_network(config, VOCABULARY, VOCABULARY)
    assert isinstance(network, TranslationNetwork)
    loss = architecture("transformer").loss
    made = Trainer(network, loss, counted, 1, settings, run, Ranks(0, 1, torch.device("cuda", 0)), 1, lambda: [])
    made.run(lambda step, values: None)
    torch.cuda.synchronize()
    counted.flops, items, began = 0.0, made.progress.items, time.perf_counter()
    counted.network = network
    made.config = replace(settings, max_steps=10 + steps)
    made.run(lambda step, values: None)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    loader.close()
    return (made.progress.items - items) / seconds, counted.flops / seconds


class Counting:
    """A loader that adds up the FLOPs of the batches that it hands out."""

    def __init__(self, loader: LaneLoader) -> None:
        self.loader, self.flops = loader, 0.0
        self.network: TranslationNetwork | None = None
        self.state, self.load_state, self.close = loader.state, loader.load_state, loader.close

    def step(self) -> list[TranslationBatch]:
        batches = self.loader.step()
        if self.network is not None:
            self.flops += sum(batch_flops(self.network, batch) for batch in batches)
        return batches


def batch_flops(network: TranslationNetwork, batch: TranslationBatch) -> float:
    """Forward and backward (twice the forward) of the products that the real tokens of a batch need."""
    named = dict(network.named_parameters())

    def products(start: str, end: str = "") -> int:
        return sum(
            p.numel() for name, p in named.items() if p.ndim == 2 and name.startswith(start) and name.endswith(end)
        )

    memory = products("decoder.", "cross_attention.kv.weight")  # made of the source's tokens
    dense = int((batch.source != PAD).sum()) * (products("encoder.") + memory)
    dense += batch.items * (products("decoder.") - memory + network.output.weight.numel())
    width = network.output.weight.shape[1]
    layers = sum(name.endswith("cross_attention.q.weight") for name in named)
    rows, source = batch.source.shape
    target = batch.target_in.shape[1]
    scores = rows * width * layers * (source**2 + target**2 / 2 + source * target)
    return float(6 * dense + 12 * scores)
