"""Export to CTranslate2: the same weights in the layout of its `TransformerSpec`, as float32 or int8.

Only encoder-decoder Transformers can be exported; every other architecture is served by PyTorch.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from dragoman.model.bundles.exports import Quantisation, distinct
from dragoman.model.networks.transformer import Transformer
from dragoman.model.text.tokenizer import BOS, EOS, UNK


def export(
    network: Transformer,
    directory: Path,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    quantisation: Quantisation = "float32",
) -> None:
    """Writes the CTranslate2 model into the new folder `directory`; `*_tokens` name each id of the vocabularies.

    int8 stores the weights of products and tables as 8-bit integers with one scale per row. Its translations are close
    to float32's but not equal, so it is served only where its score on the validation set is good enough.
    """
    spec = specification(network, source_tokens, target_tokens)
    spec.validate()
    spec.optimize(quantization=None if quantisation == "float32" else quantisation)
    directory.mkdir(parents=True)
    spec.save(os.fspath(directory))


def specification(network: Transformer, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> Any:
    """Returns the `ctranslate2.specs.TransformerSpec` that holds the weights of `network`."""
    from ctranslate2.specs import common_spec, transformer_spec

    config = network.config
    activations = {
        "relu": common_spec.Activation.RELU,
        "gelu": common_spec.Activation.GELU,
        "gelu_tanh": common_spec.Activation.GELUTanh,
        "silu": common_spec.Activation.SWISH,
        "swiglu": common_spec.Activation.SWISH,
    }
    shape = {
        "pre_norm": config.norm == "pre",
        "activation": activations[config.activation],
        "ffn_glu": config.activation == "swiglu",
        "rms_norm": config.norm_kind == "rms",
        "rotary_dim": 0 if config.positions == "rotary" else None,  # 0: all of a head, in neighbouring pairs
        "rotary_base": config.rotary_base,
        "layernorm_embedding": config.embedding_norm,
        "num_heads_kv": config.kv_heads or config.heads,
    }
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(config.encoder_layers, config.heads, **shape),
        transformer_spec.TransformerDecoderSpec(config.decoder_layers, config.heads, **shape),
    )
    added = config.positions != "rotary"
    if not added:
        del spec.encoder.position_encodings  # which its constructor adds all the same
    sides = (
        (spec.encoder, spec.encoder.embeddings[0], network.source_embedding, network.source_positions),
        (spec.decoder, spec.decoder.embeddings, network.target_embedding, network.target_positions),
    )
    for side, table, embedding, positions in sides:
        table.weight = array(embedding.weight)
        side.scale_embeddings = np.float32(positions.scale)
        if added:
            # always ours: the sinusoids built into CTranslate2 are laid out otherwise than the paper's
            side.position_encodings.encodings = array(positions.table)
        if config.embedding_norm:
            norm(side.layernorm_embedding, positions.norm)
    for target, layer in zip(spec.encoder.layer, network.encoder, strict=True):
        self_attention(target.self_attention, layer)
        feed_forward(target.ffn, layer)
    for target, layer in zip(spec.decoder.layer, network.decoder, strict=True):
        self_attention(target.self_attention, layer)
        cross_attention(target.attention, layer)
        feed_forward(target.ffn, layer)
    if config.norm == "pre":
        norm(spec.encoder.layer_norm, network.encoder_norm)
        norm(spec.decoder.layer_norm, network.decoder_norm)
    linear(spec.decoder.projection, network.output)
    source, target_names = distinct(source_tokens), distinct(target_tokens)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target_names)
    spec.config.unk_token = target_names[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = target_names[BOS]
    spec.config.eos_token = target_names[EOS]
    spec.config.add_source_bos = spec.config.add_source_eos = False  # our ids already end with it
    spec.config.layer_norm_epsilon = network.encoder[0].self_sublayer.norm.eps  # type: ignore[union-attr]  # EncoderLayer
    return spec


def self_attention(spec: Any, layer: Any) -> None:
    """Queries, keys and values are one product in both."""
    norm(spec.layer_norm, layer.self_sublayer.norm)
    linear(spec.linear[0], layer.self_attention.qkv)
    linear(spec.linear[1], layer.self_attention.out)


def cross_attention(spec: Any, layer: Any) -> None:
    """Queries by themselves, keys and values as one product in both."""
    norm(spec.layer_norm, layer.cross_sublayer.norm)
    linear(spec.linear[0], layer.cross_attention.q)
    linear(spec.linear[1], layer.cross_attention.kv)
    linear(spec.linear[2], layer.cross_attention.out)


def feed_forward(spec: Any, layer: Any) -> None:
    """With swiglu our inner product is two of theirs: the activated half and the gate."""
    norm(spec.layer_norm, layer.feed_forward_sublayer.norm)
    inner = layer.feed_forward.inner
    if layer.feed_forward.gated:
        for part, weight, bias in zip(
            (spec.linear_0, spec.linear_0_noact), inner.weight.chunk(2), inner.bias.chunk(2), strict=True
        ):
            part.weight, part.bias = array(weight), array(bias)
    else:
        linear(spec.linear_0, inner)
    linear(spec.linear_1, layer.feed_forward.outer)


def linear(spec: Any, module: nn.Linear) -> None:
    spec.weight = array(module.weight)  # (out, in)
    if module.bias is not None:
        spec.bias = array(module.bias)


def norm(spec: Any, module: Any) -> None:
    spec.gamma = array(module.weight)
    if isinstance(module, nn.LayerNorm):
        spec.beta = array(module.bias)


def array(tensor: Tensor) -> np.ndarray:
    """A float32 copy in C order."""
    return np.ascontiguousarray(tensor.detach().float().cpu().numpy()).copy()
