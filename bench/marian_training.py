"""The peer of `bench train` in transformers: `python -m bench.marian_training SHARDS PRECISION STEPS WARM_UP THREADS`.

MarianMT with Transformer-tiny's sizes, its own loss with label smoothing off (it has none), Adam, in fp32 or by
bf16 autocast, on the batches of our loader. Prints target tokens/s last.
"""

import sys
import time
from pathlib import Path

import torch

from bench.marian import make_adam, make_network, update
from dragoman.model.shards.reader import ShardReader
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig


def main(shards: Path, precision: str, steps: int, warm_up: int, threads: int) -> float:
    """Target tokens/s over `steps` updates after `warm_up`."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    network = make_network(10_000, dropout=0.3, attention_dropout=0.3, activation_dropout=0.3).train()
    optimizer = make_adam(network, 0.001)
    loader = LaneLoader(ShardReader(shards, "train"), LoaderConfig(lanes=1), 1)
    items, began = 0, 0.0
    for step in range(warm_up + steps):
        if step == warm_up:
            items, began = 0, time.perf_counter()
        (batch,) = loader.step()
        update(network, optimizer, batch, precision == "bf16")
        items += batch.items
    seconds = time.perf_counter() - began
    loader.close()
    return items / seconds


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2], *(int(word) for word in sys.argv[3:])))
