"""The peer of `bench train` in transformers: `python -m bench.marian_training SHARDS PRECISION STEPS WARM_UP THREADS`.

MarianMT with Transformer-tiny's sizes, its own loss with label smoothing off (it has none), Adam, in fp32 or by
bf16 autocast, on the batches of our loader. Prints target tokens/s last.
"""

import sys
import time
from pathlib import Path

import torch
from transformers import MarianConfig, MarianMTModel

from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import BOS, EOS, PAD
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig


def main(shards: Path, precision: str, steps: int, warm_up: int, threads: int) -> float:
    """Target tokens/s over `steps` updates after `warm_up`."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=10_000,
        d_model=128,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        dropout=0.3,
        attention_dropout=0.3,
        activation_dropout=0.3,
        activation_function="relu",
        max_position_embeddings=512,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=EOS,
    )
    network = MarianMTModel(config).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.001, betas=(0.9, 0.98), fused=True)
    loader = LaneLoader(ShardReader(shards, "train"), LoaderConfig(lanes=1), 1)
    items, began = 0, 0.0
    for step in range(warm_up + steps):
        if step == warm_up:
            items, began = 0, time.perf_counter()
        (batch,) = loader.step()
        labels = batch.target_out.masked_fill(batch.target_out == PAD, -100)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = network(
                input_ids=batch.source,
                attention_mask=(batch.source != PAD).long(),
                decoder_input_ids=batch.target_in,
                labels=labels,
            ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        items += batch.items
    seconds = time.perf_counter() - began
    loader.close()
    return items / seconds


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2], *(int(word) for word in sys.argv[3:])))
