"""An encoder as a folder that `sentence_transformers.SentenceTransformer` and transformers' `AutoModel` read.

The network becomes transformers' `EsmModel`, the one BERT there that has pre-norm layers and no normalisation of its
embeddings: learned, sinusoidal or rotary positions, exact GELU, layer normalisation, biases. The folder holds no code.

    config.json, model.safetensors        the encoder
    tokenizer.json, tokenizer_config.json the tokenizer, which ends a text with </s>
    modules.json, 1_Pooling/config.json   how states become a vector: their mean, or the first
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.model.bundles.directory import CONFIG, WEIGHTS
from dragoman.model.bundles.labelled import LabelBundle
from dragoman.model.bundles.language import TextBundle
from dragoman.model.bundles.tokenizer_json import FILE, tokenizer_json, tokenizer_settings
from dragoman.model.errors import UserError
from dragoman.model.layers.transformer_layers import EncoderLayer
from dragoman.model.networks.bert import TokenEncoder
from dragoman.model.text.tokenizer import MASK, PAD

FITTING: dict[str, tuple[Any, ...]] = {  # key: values that EsmModel has
    "norm": ("pre",),
    "norm_kind": ("layer",),
    "activation": ("gelu",),
    "positions": ("learned", "sinusoidal", "rotary"),
    "norm_epsilon": (None, 1e-5),
    "scale_table": (True,),
    "embedding_norm": (False,),
    "rotary_base": (10000.0,),
    "prefix": ([],),
}
POOLINGS = {"mean": "mean", "first": "cls"}


def write_sentence_transformers(folder: Path, bundle: object) -> None:
    """Writes the encoder of a masked model or of a Transformer head into `folder`.

    Raises UserError: another network, a switch that no class of transformers has (names the one that fits), or a
    tokenizer without subwords.
    """
    from safetensors.torch import save_file

    if not isinstance(bundle, TextBundle | LabelBundle) or not isinstance(bundle.network, TokenEncoder):
        raise UserError(
            "sentence-transformers: only encoders are exported: masked models (model=bert_tiny) and labels' "
            "Transformers (model=classifier_transformer)"
        )
    config, network = bundle.config, bundle.network
    pooling = getattr(config, "pooling", "mean") if getattr(config, "head", "") != "tags" else "mean"
    for key, choices in FITTING.items():
        if getattr(config, key) not in choices:
            raise UserError(
                f"model.{key}={getattr(config, key)}: no class of transformers has this encoder; train it with "
                f"model.{key}={choices[0]}"
            )
    if pooling not in POOLINGS:
        raise UserError(f"model.pooling={pooling}: sentence-transformers has {' and '.join(POOLINGS)}")
    tokenizer = tokenizer_json(bundle.tokenizer, bundle.normalisation)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(tokenizer, encoding="utf-8")
    write_json(folder / "tokenizer_config.json", tokenizer_settings(config.max_positions))
    write_json(folder / CONFIG, esm_config(config, len(network.embedding.weight)))
    save_file(esm_weights(network, config), folder / WEIGHTS, metadata={"format": "pt"})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": config.max_positions, "do_lower_case": False})
    write_json(folder / "modules.json", modules())
    (folder / "1_Pooling").mkdir(exist_ok=True)
    settings = {"word_embedding_dimension": config.width, "pooling_mode_mean_tokens": pooling == "mean"}
    write_json(folder / "1_Pooling" / CONFIG, settings | {"pooling_mode_cls_token": pooling == "first"})


def modules() -> list[dict[str, Any]]:
    """Returns the list of modules: the encoder, and its pooling."""
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling")
    return [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(kinds)
    ]


def esm_config(config: Any, vocabulary: int) -> dict[str, Any]:
    """Returns the content of config.json."""
    return {
        "model_type": "esm",
        "architectures": ["EsmModel"],
        "vocab_size": vocabulary,
        "mask_token_id": MASK,
        "pad_token_id": PAD,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feed_forward,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "max_position_embeddings": config.max_positions + 1,  # the row of padding comes first
        "layer_norm_eps": 1e-5,
        "position_embedding_type": "rotary" if config.positions == "rotary" else "absolute",
        "emb_layer_norm_before": False,
        "token_dropout": False,
        "dtype": "float32",
    }


def esm_weights(network: TokenEncoder, config: Any) -> dict[str, Tensor]:
    """Returns transformers' names and tensors; the pooler and the contacts, which nothing here uses, are zeros."""
    width = config.width
    weights = {"embeddings.word_embeddings.weight": network.embedding.weight * math.sqrt(width)}
    if config.positions != "rotary":
        table = network.positions.table
        weights["embeddings.position_embeddings.weight"] = torch.cat([torch.zeros(1, width), table])
    for number, layer in enumerate(network.layers):
        assert isinstance(layer, EncoderLayer)
        for name, tensor in layer_weights(layer, config).items():
            weights[f"encoder.layer.{number}.{name}"] = tensor
    weights |= named("encoder.emb_layer_norm_after", network.norm.weight, network.norm.bias)
    weights |= named("pooler.dense", torch.zeros(width, width), torch.zeros(width))
    weights |= named("contact_head.regression", torch.zeros(1, config.layers * config.heads), torch.zeros(1))
    return {name: tensor.detach().float().contiguous() for name, tensor in weights.items()}


def layer_weights(layer: EncoderLayer, config: Any) -> dict[str, Tensor]:
    heads, width = config.heads, config.width // config.heads
    groups = config.kv_heads or heads
    projection = layer.self_attention.qkv
    sizes = [heads * width, groups * width, groups * width]
    weights: dict[str, Tensor] = {}
    parts = zip(
        ("query", "key", "value"),
        torch.split(projection.weight, sizes),
        torch.split(projection.bias, sizes),
        strict=True,
    )
    for name, weight, bias in parts:
        count = heads if name == "query" else groups
        matrices = torch.cat([weight.view(count, width, -1), bias.view(count, width, 1)], 2)  # (count, K, D + 1)
        if name != "value" and config.positions == "rotary":  # theirs turns the two halves, ours neighbours
            matrices = torch.cat([matrices[:, ::2], matrices[:, 1::2]], 1)
        matrices = matrices.repeat_interleave(heads // count, 0).flatten(0, 1)
        weights |= named(f"attention.self.{name}", matrices[:, :-1], matrices[:, -1])
    modules = {
        "attention.output.dense": layer.self_attention.out,
        "attention.LayerNorm": layer.self_sublayer.norm,
        "intermediate.dense": layer.feed_forward.inner,
        "output.dense": layer.feed_forward.outer,
        "LayerNorm": layer.feed_forward_sublayer.norm,
    }
    for name, module in modules.items():
        weights |= named(name, module.weight, module.bias)
    return weights


def named(name: str, weight: Any, bias: Any) -> dict[str, Tensor]:
    """Returns the two tensors of a module by transformers' names."""
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def write_json(path: Path, content: object) -> None:
    """Writes a file of settings."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
