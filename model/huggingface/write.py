"""A bundle as a folder of transformers: MarianMTModel, GPT2LMHeadModel or LlamaForCausalLM, where one fits exactly.

The ids stay ours: pad 0, unk 1, bos 2, eos 3, mask 4, sep 5.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.model.bundles.ancestry import ancestry
from dragoman.model.bundles.directory import Bundle
from dragoman.model.bundles.language import TextBundle
from dragoman.model.bundles.tokenizer_json import tokenizer_json, tokenizer_settings
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.errors import UserError
from dragoman.model.huggingface.bart import interleaved
from dragoman.model.huggingface.families import ACTIVATIONS, ALONE, MARIAN, ROWS, Row
from dragoman.model.huggingface.folder import CONFIG, WEIGHTS
from dragoman.model.huggingface.weights import written_tensors
from dragoman.model.layers.transformer_layers import activation_dropout, attention_dropout
from dragoman.model.networks.bert import EncoderOnly
from dragoman.model.networks.gpt import DecoderOnly
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer import BOS, EOS, MASK, PAD, SEP, UNK, Tokenizer

SPECIAL_IDS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
CLASSES = {"bert": "BertForMaskedLM", "gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}
FREE = ("scale_table", "dropout", "activation_dropout", "output_bias")  # of a row, which do not change what is computed
Needed = Mapping[str, tuple[Any, ...]]  # setting of the network -> the values that the class has


def write_huggingface(folder: Path, bundle: Bundle) -> None:
    """Writes the bundle's network and tokenizer into the new folder."""
    if isinstance(bundle, TranslationBundle) and isinstance(bundle.network, Transformer):
        files, weights = marian(bundle.network, bundle)
    elif isinstance(bundle, TextBundle) and isinstance(bundle.network, DecoderOnly | EncoderOnly):
        files, weights = stack(bundle.network, bundle)
    else:
        raise UserError(
            f"export: {bundle.config.architecture} has no class in transformers. Choices: bundles of the "
            "architectures transformer (MarianMTModel), gpt (GPT2LMHeadModel, LlamaForCausalLM), bert (BertForMaskedLM)"
        )
    save(folder, {**files, "README.md": card(bundle).encode()}, weights)


def save(folder: Path, files: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Writes the files, bytes as they are and the rest as JSON, and the weights."""
    from safetensors.torch import save_file

    for name, content in files.items():
        data = content if isinstance(content, bytes) else (json.dumps(content, indent=2) + "\n").encode()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    tensors = {name: tensor.detach().float().cpu().clone().contiguous() for name, tensor in weights.items()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def check(settings: Any, needed: Needed, name: str) -> None:
    """Refuses a network that the class `name` does not compute."""
    wrong = [
        f"model.{key}={getattr(settings, key)} ({name} has {' or '.join(map(str, values))})"
        for key, values in needed.items()
        if getattr(settings, key) not in values
    ]
    if wrong:
        raise UserError(f"export: no class of transformers computes this network: {'; '.join(wrong)}")


def marian(network: Transformer, bundle: TranslationBundle) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Returns the files and the weights of a MarianMTModel."""
    config: TransformerConfig = network.config
    prefixes: Needed = {"source_prefix": ([],), "target_prefix": ([],)}
    own: Needed = {"tie": ("all", "target"), "kv_heads": (0, config.heads), "norm_epsilon": (None, 1e-5), **prefixes}
    check(config, {**needed(MARIAN), **own}, "MarianMTModel")
    source, target = subwords(bundle.tokenizers.source), subwords(bundle.tokenizers.target)
    shared = config.tie == "all"
    back = torch.argsort(interleaved(config.width))
    weights = written_tensors(MARIAN, network, back)
    table = weights.pop(MARIAN.output)
    bias = network.output.bias
    weights["final_logits_bias"] = torch.zeros(1, target.vocabulary) if bias is None else bias[None]
    if shared:
        weights["model.shared.weight"] = table
    else:
        own_table = network.source_embedding.weight[:, back]
        sides = {"model.encoder.embed_tokens.weight": own_table, "model.decoder.embed_tokens.weight": table}
        weights |= {**sides, MARIAN.output: table}
    sizes = written_settings(MARIAN, config)
    special = {**SPECIAL_IDS, "decoder_start_token_id": BOS}
    settings = {
        "architectures": ["MarianMTModel"], "model_type": "marian", "vocab_size": source.vocabulary,
        "decoder_vocab_size": target.vocabulary, "share_encoder_decoder_embeddings": shared,
        **sizes, **{second: sizes[first] for first, second in MARIAN.same},
        "tie_word_embeddings": True, "is_encoder_decoder": True, "forced_eos_token_id": None, **special,
    }  # fmt: skip
    generation = {
        **special, "num_beams": bundle.decode.beam,
        "length_penalty": bundle.decode.alpha, "max_length": config.max_positions,
        "suppress_tokens": [PAD, UNK, BOS, MASK, SEP], "begin_suppress_tokens": [EOS],
    }  # fmt: skip
    languages = bundle.languages
    files = {
        CONFIG: settings,
        "generation_config.json": generation,
        "source.spm": source.model,
        "target.spm": target.model,
        "vocab.json": ids_of(source),
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer", "source_lang": languages[0], "target_lang": languages[1],
            "model_max_length": config.max_positions, "separate_vocabs": not shared,
        },
        **({} if shared else {"target_vocab.json": ids_of(target)}),
    }  # fmt: skip
    return files, weights


def stack(network: DecoderOnly | EncoderOnly, bundle: TextBundle) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Returns the files and the weights of a BertForMaskedLM, GPT2LMHeadModel or, if rotary, LlamaForCausalLM."""
    config = network.config
    masked = isinstance(network, EncoderOnly)
    kind = "bert" if masked else "llama" if config.positions == "rotary" else "gpt2"
    row, name = ROWS[kind], CLASSES[kind]
    check(config, needed(row), name)
    tied = row.read["tie_word_embeddings"] and config.tie and not config.scale_table
    # Ours reads an end of sentence before the first token of a language model.
    special = {**SPECIAL_IDS, "bos_token_id": BOS if masked else EOS}
    weights = written_tensors(row, network)
    if row.types is not None:
        weights[f"{row.base}{row.types}"] = torch.zeros(1, config.width)
    if tied:
        del weights[row.output]
    settings = {
        "architectures": [name], "model_type": kind, "vocab_size": bundle.tokenizer.vocabulary,
        "tie_word_embeddings": tied,
        **{theirs: values[0] for theirs, values in row.needs.items() if theirs not in ALONE},
        **written_settings(row, config), **special,
        **({"rope_theta": config.rotary_base, "attention_bias": True, "mlp_bias": True} if row.halves else {}),
        **({"type_vocab_size": 1} if row.types else {"embd_pdrop": config.dropout} if kind == "gpt2" else {}),
    }  # fmt: skip
    before, after = ((BOS,), (EOS,)) if masked else ((EOS,), ())
    files: dict[str, Any] = {
        CONFIG: settings,
        "tokenizer.json": tokenizer_json(bundle.tokenizer, bundle.normalisation, before=before, after=after).encode(),
        "tokenizer_config.json": {
            **tokenizer_settings(config.max_positions), "bos_token": "<s>" if masked else "</s>",
            **({"cls_token": "<s>", "sep_token": "</s>"} if masked else {}),
        },
    }  # fmt: skip
    if not masked:
        suppressed = {"suppress_tokens": config.absent} if config.absent else {}
        files["generation_config.json"] = {**special, **suppressed}
    return files, weights


def needed(row: Row) -> Needed:
    """Returns the values that a class has of the switches that its settings do not say."""
    values: dict[str, tuple[Any, ...]] = {
        key: (getattr(row.config, key),) for key in ("norm_kind", "embedding_norm", "kv_heads")
    }
    values |= {key: (value,) for key, value in row.fixed.items() if key not in FREE}
    values["activation"] = (row.fixed["activation"],) if "activation" in row.fixed else tuple(ACTIVATIONS.values())
    return {key: values[key] for key in values if key == "activation" or key not in row.settings}


def written_settings(row: Row, config: Any) -> dict[str, Any]:
    """Returns the sizes and switches of a network by their names there."""
    values = {**vars(config), "kv_heads": config.kv_heads or config.heads}
    values["activation"] = next((theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation), None)
    values["norm_epsilon"] = config.norm_epsilon or (1e-6 if config.norm_kind == "rms" else 1e-5)
    values["attention_dropout"], values["activation_dropout"] = attention_dropout(config), activation_dropout(config)
    return {theirs: values[ours] for ours, (theirs, _) in row.settings.items()}


def subwords(tokenizer: Tokenizer) -> SubwordTokenizer:
    """Returns the tokenizer, whose model is a file of SentencePiece."""
    if not isinstance(tokenizer, SubwordTokenizer):
        raise UserError(
            f"export: tokenizer.type={tokenizer.type}: Marian reads SentencePiece models. Choices: bpe, unigram"
        )
    return tokenizer


def ids_of(tokenizer: Tokenizer) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(tokenizer.pieces(range(tokenizer.vocabulary)))}


def card(bundle: Bundle) -> str:
    """Returns the model card: languages, license and origin, as far as the bundle tells them."""
    origin, facts = bundle.facts.get("imported") or {}, bundle.facts
    run = facts.get("run") or {}
    license = f"license: {origin['license']}\n" if origin.get("license") else ""
    card_facts = {
        "languages": bundle.pair,
        "imported from": origin.get("source"),
        "revision": origin.get("revision"),
        "run": run.get("name"),
        "shards": facts.get("manifest_hash"),
        **ancestry(facts),
        "bundle": bundle.digest,
    }
    lines = "".join(f"- {key}: `{value}`\n" for key, value in card_facts.items() if value)
    return f"---\n{license}library_name: transformers\n---\n\n# {run.get('name') or 'A Dragoman model'}\n\n{lines}"
