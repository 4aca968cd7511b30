"""An encoder as a folder that `sentence_transformers.SentenceTransformer` and transformers' `AutoModel` read.

The network becomes transformers' `EsmModel`, the one BERT there that has pre-norm layers and no normalisation of its
embeddings: learned, sinusoidal or rotary positions, exact GELU, layer normalisation, biases. The folder holds no code.

    config.json, model.safetensors        the encoder
    tokenizer.json, tokenizer_config.json the tokenizer, which ends a text with </s>
    modules.json, 1_Pooling/config.json   how states become a vector: their mean, or the first
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.model.bundles.labelled import LabelBundle
from dragoman.model.bundles.language import TextBundle
from dragoman.model.bundles.tokenizer_json import FILE, tokenizer_json, tokenizer_settings
from dragoman.model.errors import UserError
from dragoman.model.huggingface.families import ESM
from dragoman.model.huggingface.folder import CONFIG
from dragoman.model.huggingface.weights import written_tensors
from dragoman.model.huggingface.write import Needed, check, needed, save, written_settings
from dragoman.model.networks.bert import TokenEncoder
from dragoman.model.text.tokenizer import MASK, PAD

FITTING: Needed = {  # values that EsmModel has, beside those of its row
    **{key: values for key, values in needed(ESM).items() if key != "kv_heads"},
    "positions": ("learned", "sinusoidal", "rotary"),
    "norm_epsilon": (None, 1e-5),
    "scale_table": (True,),
    "rotary_base": (10000.0,),
}
POOLINGS = {"mean": "mean", "first": "cls"}


def write_sentence_transformers(folder: Path, bundle: object) -> None:
    """Writes the encoder of a masked model or of a Transformer head into `folder`.

    Raises UserError: another network, a switch that no class of transformers has (names those that fit), or a tokenizer
    without subwords.
    """
    if not isinstance(bundle, TextBundle | LabelBundle) or not isinstance(bundle.network, TokenEncoder):
        raise UserError(
            "sentence-transformers: only encoders are exported: masked models (model=bert_tiny) and labels' "
            "Transformers (model=classifier_transformer)"
        )
    config = bundle.config
    pooling = getattr(config, "pooling", "mean") if getattr(config, "head", "") != "tags" else "mean"
    check(config, FITTING, "EsmModel")
    if pooling not in POOLINGS:
        raise UserError(f"model.pooling={pooling}: sentence-transformers has {' and '.join(POOLINGS)}")
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling")
    files: dict[str, Any] = {
        FILE: tokenizer_json(bundle.tokenizer, bundle.normalisation).encode(),
        "tokenizer_config.json": tokenizer_settings(config.max_positions),
        CONFIG: esm_settings(config, bundle.tokenizer.vocabulary),
        "sentence_bert_config.json": {"max_seq_length": config.max_positions, "do_lower_case": False},
        "modules.json": [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(kinds)
        ],
        f"1_Pooling/{CONFIG}": {
            "word_embedding_dimension": config.width,
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_cls_token": pooling == "first",
        },
    }
    save(folder, files, esm_weights(bundle.network, config))


def esm_settings(config: Any, vocabulary: int) -> dict[str, Any]:
    """Returns the content of config.json."""
    return {
        **written_settings(ESM, config),
        "model_type": "esm",
        "architectures": ["EsmModel"],
        "vocab_size": vocabulary,
        "mask_token_id": MASK,
        "pad_token_id": PAD,
        "max_position_embeddings": config.max_positions + 1,  # the row of padding comes first
        "layer_norm_eps": 1e-5,
        "position_embedding_type": "rotary" if config.positions == "rotary" else "absolute",
        "emb_layer_norm_before": False,
        "token_dropout": False,
        "dtype": "float32",
    }


def esm_weights(network: TokenEncoder, config: Any) -> dict[str, Tensor]:
    """Returns transformers' names and tensors; the pooler and the contacts, which nothing here uses, are zeros."""
    width, heads = config.width, config.heads
    weights = written_tensors(replace(ESM, halves=config.positions == "rotary"), network)
    weights.pop(ESM.output, None)
    for name, tensor in weights.items():
        if name.rpartition(".")[0].endswith(("self.key", "self.value")):  # as many heads as for queries
            groups = config.kv_heads or heads
            each = tensor.view(groups, width // heads, *tensor.shape[1:])
            weights[name] = each.repeat_interleave(heads // groups, 0).flatten(0, 1)
    if config.positions != "rotary":
        table = torch.cat([torch.zeros(1, width), network.positions.table])
        weights["embeddings.position_embeddings.weight"] = table
    for name, shape in {"pooler.dense": (width, width), "contact_head.regression": (1, config.layers * heads)}.items():
        weights |= {f"{name}.weight": torch.zeros(shape), f"{name}.bias": torch.zeros(shape[0])}
    return weights
