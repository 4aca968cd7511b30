"""MarianMT of transformers, which runs in the peers' environment: its network, an update, and a search from ids to ids.

`bench train`, `bench decode` and `bench race` measure with them.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import BOS, EOS, PAD


def make_network(vocabulary: int, **settings: Any) -> MarianMTModel:
    """Returns the network with new weights: Transformer-tiny's sizes, without dropout, but for these settings."""
    sizes = {
        "vocab_size": vocabulary,
        "d_model": 128,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256,
        "dropout": 0.0,
        "activation_function": "relu",
        "max_position_embeddings": 512,
    }
    return MarianMTModel(
        MarianConfig(
            **{**sizes, **settings},
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )


def make_adam(network: MarianMTModel, rate: float) -> torch.optim.Optimizer:
    """Returns Adam as our recipes have it."""
    return torch.optim.Adam(network.parameters(), lr=rate, betas=(0.9, 0.98), fused=True)


def update(network: MarianMTModel, optimizer: torch.optim.Optimizer, batch: TranslationBatch, bf16: bool) -> Tensor:
    """Makes one step by the network's own loss, without label smoothing, which it has not; returns the loss."""
    labels = batch.target_out.masked_fill(batch.target_out == PAD, -100)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss: Tensor = network(
            input_ids=batch.source,
            attention_mask=(batch.source != PAD).long(),
            decoder_input_ids=batch.target_in,
            labels=labels,
        ).loss
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def generate(network: MarianMTModel, rows: Sequence[list[int]], batch: int, **options: Any) -> list[list[int]]:
    """Returns the target ids of rows of source ids, both in the rows' order and the former without end of sentence.

    The rows are sorted by length, so that a batch of so many has little padding.
    """
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    made: list[list[int]] = [[] for _ in rows]
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(rows[row]) for row in chosen], True, PAD)
        with torch.inference_mode():
            found = network.generate(padded, attention_mask=(padded != PAD).long(), **options)
        for row, ids in zip(chosen, found[:, 1:].tolist(), strict=True):
            made[row] = ids[: ids.index(EOS)] if EOS in ids else ids
    return made
