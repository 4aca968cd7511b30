"""Marian, BART and M2M-100 (NLLB): the same stack of layers, to and from ours.

    BART      post-norm, tables of positions, a normalisation before the first layer, <s> before both sides
    Marian    post-norm, sinusoids with all sines before all cosines, one vocabulary or one a side, a bias per token
    M2M-100   pre-norm, sinusoids of other frequencies (a table here), the languages as tokens before both sides

Marian's order of sinusoids is ours after a permutation of the width, so the permutation moves all columns and rows that
meet the residual stream, and none inside of a head or of the feed-forward layer.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.huggingface.folder import CONFIG, Folder, Imported, ImportOptions, Tables, Tensors
from dragoman.model.huggingface.pieces import added_tokens, before_added, read_pieces
from dragoman.model.huggingface.stacks import ACTIVATIONS
from dragoman.model.huggingface.tokenizer import names_of, our_tokenizer, read_content, special_ids
from dragoman.model.huggingface.vocabulary import (
    Order,
    is_language_and_script,
    language_token,
    our_order,
    reordered,
    some,
)
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.tokenizer import TokenizerPair

SIDES = (("encoder", ("self",)), ("decoder", ("self", "cross")))
ATTENTIONS = {"self": ("self_attn", "self_attn_layer_norm"), "cross": ("encoder_attn", "encoder_attn_layer_norm")}
PIECES = "sentencepiece.bpe.model"
OFFSET = 2  # the first position of BART and M2M-100 is that of their padding plus one


def read_marian(folder: Folder, options: ImportOptions) -> Imported:
    """Reads a MarianMTModel, such as those of OPUS-MT."""
    shared = folder.setting("share_encoder_decoder_embeddings", bool, True)
    names = [named(folder, "vocab.json"), named(folder, "vocab.json" if shared else "target_vocab.json")]
    sizes = [folder.setting("vocab_size", int)]
    sizes.append(folder.setting("decoder_vocab_size", int, sizes[0]))
    orders = [marian_order(folder, side, size) for side, size in zip(names, sizes, strict=True)]
    added = {number: token for number, token in added_tokens(folder).items() if names[0].get(number) != token}
    if added and not shared:
        raise UserError(f"{folder.path}: tokens are added ({some(list(added.values()))}) to a vocabulary a side")
    (source, notes), (target, more) = (
        reordered(read_pieces(folder, file), side, order, added, before_added(folder))
        for file, side, order in zip(("source.spm", "target.spm"), names, orders, strict=True)
    )
    tokens = {piece: number for number, piece in names[0].items() if piece.startswith(">>") and piece.endswith("<<")}
    prefix = []
    if tokens:
        theirs = language_token(tokens, options.target_language, options.target_token, "imports.target_token")
        prefix = [orders[0].ours(theirs)]
    elif options.target_token is not None:
        raise UserError(f"imports.target_token={options.target_token}: this model has one target language")
    config = shape(folder, "post", "sinusoidal", source_prefix=prefix)
    tensors = folder.tensors()
    tied = folder.setting("tie_word_embeddings", bool, True)
    tables = tensors.tables("model.", (sizes[0], sizes[1]), config.width, shared=shared, tied=tied)
    config.tie = tables.tie(shared=shared)
    network = Transformer(config, *map(len, orders))
    bias = tensors.take("final_logits_bias", 1, sizes[1])[0]
    fill_stacks(network, tensors, orders, tables, bias, interleaved(config.width))
    lacking = notes.get("pieces_without_id", 0) + more.get("pieces_without_id", 0)
    return Imported(network, TokenizerPair(source, target), notes | ({"pieces_without_id": lacking} if lacking else {}))


def read_bart(folder: Folder, _options: ImportOptions) -> Imported:
    size = folder.setting("vocab_size", int)
    content = read_content(folder)
    names = names_of(folder, content)
    special = special_ids(folder, names)
    start = folder.setting("decoder_start_token_id", int, special["eos"])
    order = our_order(
        size, eos=special["eos"], pad=special["pad"], unk=special["unk"], start=start, mask=special["mask"]
    )
    tokenizer = our_tokenizer(folder, content, names, order)
    before = [order.ours(special["bos"])]
    config = shape(folder, "post", "learned", source_prefix=before, target_prefix=before)
    config.embedding_norm = True
    tensors = folder.tensors()
    tied = folder.setting("tie_word_embeddings", bool, True)
    tables = tensors.tables("model.", (size, size), config.width, shared=True, tied=tied)
    config.tie = tables.tie(shared=True)
    network = Transformer(config, len(order), len(order))
    bias = tensors.take("final_logits_bias", 1, size)[0]
    for side, positions in (("encoder", network.source_positions), ("decoder", network.target_positions)):
        rows = tensors.take(f"model.{side}.embed_positions.weight", config.max_positions + OFFSET, config.width)
        with torch.no_grad():
            positions.table.copy_(rows[OFFSET:])
    fill_stacks(network, tensors, [order, order], tables, bias, torch.arange(config.width))
    return Imported(network, TokenizerPair(tokenizer, tokenizer))


def read_m2m(folder: Folder, options: ImportOptions) -> Imported:
    """Reads an M2M100ForConditionalGeneration: M2M-100 and, if it has no vocab.json, NLLB."""
    size = folder.setting("vocab_size", int)
    added = added_tokens(folder)
    names = m2m_names(folder) if (folder.path / "vocab.json").is_file() else nllb_names(folder)
    names |= added
    ids = {piece: number for number, piece in names.items()}
    order = our_order(
        size,
        pad=folder.setting("pad_token_id", int, 1),
        unk=ids.get("<unk>", 3),
        eos=folder.setting("eos_token_id", int, 2),
        start=folder.setting("decoder_start_token_id", int, 2),
        mask=ids.get("<mask>", -1),
    )
    tokenizer, notes = reordered(read_pieces(folder, PIECES), names, order, added, before_added(folder))
    tokens = {piece: number for piece, number in ids.items() if piece.startswith("__") or is_language_and_script(piece)}
    prefixes = [
        [order.ours(language_token(tokens, language, token, f"imports.{side}_token"))]
        for side, language, token in (
            ("source", options.source_language, options.source_token),
            ("target", options.target_language, options.target_token),
        )
    ]
    config = shape(folder, "pre", "learned", source_prefix=prefixes[0], target_prefix=prefixes[1])
    tensors = folder.tensors()
    tied = folder.setting("tie_word_embeddings", bool, True)
    tables = tensors.tables("model.", (size, size), config.width, shared=True, tied=tied)
    config.tie = tables.tie(shared=True)
    network = Transformer(config, len(order), len(order))
    fill_stacks(network, tensors, [order, order], tables, None, torch.arange(config.width))
    positions = m2m_positions(config.max_positions, config.width)
    with torch.no_grad():
        network.source_positions.table.copy_(positions)
        network.target_positions.table.copy_(positions)
    return Imported(network, TokenizerPair(tokenizer, tokenizer), notes)


def shape(
    folder: Folder, norm: Any, positions: Any, source_prefix: list[int], target_prefix: list[int] | None = None
) -> TransformerConfig:
    """Returns our configuration of the stack that config.json describes."""
    width, heads, inner = (
        same_on_both(folder, *keys)
        for keys in (("d_model",), ("encoder_attention_heads", "decoder_attention_heads"),
                     ("encoder_ffn_dim", "decoder_ffn_dim"))
    )  # fmt: skip
    activation = folder.setting("activation_function", str, "relu")
    if activation not in ACTIVATIONS:
        choices = ", ".join(ACTIVATIONS)
        raise UserError(f"{folder.path / CONFIG}: activation_function={activation!r} is not known. Choices: {choices}")
    return TransformerConfig(
        name=str(folder.config["model_type"]),
        width=width,
        heads=heads,
        feed_forward=inner,
        encoder_layers=folder.setting("encoder_layers", int),
        decoder_layers=folder.setting("decoder_layers", int),
        dropout=float(folder.setting("dropout", float, 0.1)),
        attention_dropout=float(folder.setting("attention_dropout", float, 0.0)),
        activation_dropout=float(folder.setting("activation_dropout", float, 0.0)),
        norm=norm,
        activation=ACTIVATIONS[activation],
        positions=positions,
        max_positions=folder.setting("max_position_embeddings", int, 512),
        output_bias=True,
        scale_table=folder.setting("scale_embedding", bool, folder.config["model_type"] == "m2m_100"),
        source_prefix=source_prefix,
        target_prefix=target_prefix or [],
    )


def same_on_both(folder: Folder, *keys: str) -> int:
    """Returns the one value of settings that our network has once for both sides."""
    sizes = {key: int(folder.setting(key, int)) for key in keys}
    if len(set(sizes.values())) > 1:
        listing = ", ".join(f"{key}={value}" for key, value in sizes.items())
        raise UserError(f"{folder.path / CONFIG}: {listing}: this network has one number for both")
    return sizes[keys[0]]


def fill_stacks(
    network: Transformer,
    tensors: Tensors,
    orders: list[Order],
    tables: Tables,
    bias: Tensor | None,
    width_order: Tensor,
) -> None:
    config = network.config
    state = {
        "source_embedding.weight": orders[0].rows(tables.source)[:, width_order],
        "target_embedding.weight": orders[1].rows(tables.target)[:, width_order],
        "output.weight": orders[1].rows(tables.output)[:, width_order],
        "output.bias": orders[1].bias(bias),
    }
    for mine, theirs, way in correspondence(config):
        state[mine] = torch.cat([tensors.take(name, *size) for name, size in theirs])
        state[mine] = permuted(state[mine], way, width_order)
    tensors.finish()
    network.load_state_dict({**network.state_dict(), **state})


def permuted(tensor: Tensor, way: str, width_order: Tensor) -> Tensor:
    """Returns a weight that reads the residual stream ("in") or writes it ("out") for a stream in another order."""
    if way == "out":
        return tensor[width_order]
    return tensor[:, width_order] if tensor.dim() == 2 and way == "in" else tensor


Names = tuple[str, list[tuple[str, tuple[int, ...]]], str]


def correspondence(config: TransformerConfig) -> Iterator[Names]:
    """Yields (our tensor, their tensors that stand one above the other in it and their shapes, its way)."""
    wide, inner = config.width, config.feed_forward
    square: dict[str, tuple[int, ...]] = {"weight": (wide, wide), "bias": (wide,)}
    for side, attentions in SIDES:
        for layer in range(config.encoder_layers if side == "encoder" else config.decoder_layers):
            ours, theirs = f"{side}.{layer}", f"model.{side}.layers.{layer}"
            for attention in attentions:
                name, norm = ATTENTIONS[attention]
                products = {"qkv": "qkv"} if attention == "self" else {"q": "q", "kv": "kv"}
                for part, letters in products.items():
                    for kind, size in square.items():
                        sources = [(f"{theirs}.{name}.{letter}_proj.{kind}", size) for letter in letters]
                        yield f"{ours}.{attention}_attention.{part}.{kind}", sources, "in"
                for kind, size in square.items():
                    yield (
                        f"{ours}.{attention}_attention.out.{kind}",
                        [(f"{theirs}.{name}.out_proj.{kind}", size)],
                        "out",
                    )
                yield from norms(f"{ours}.{attention}_sublayer.norm", f"{theirs}.{norm}", wide)
            yield f"{ours}.feed_forward.inner.weight", [(f"{theirs}.fc1.weight", (inner, wide))], "in"
            yield f"{ours}.feed_forward.inner.bias", [(f"{theirs}.fc1.bias", (inner,))], "in"
            yield f"{ours}.feed_forward.outer.weight", [(f"{theirs}.fc2.weight", (wide, inner))], "out"
            yield f"{ours}.feed_forward.outer.bias", [(f"{theirs}.fc2.bias", (wide,))], "out"
            yield from norms(f"{ours}.feed_forward_sublayer.norm", f"{theirs}.final_layer_norm", wide)
        if config.norm == "pre":
            yield from norms(f"{side}_norm", f"model.{side}.layer_norm", wide)
        if config.embedding_norm:
            ours = {"encoder": "source", "decoder": "target"}[side]
            yield from norms(f"{ours}_positions.norm", f"model.{side}.layernorm_embedding", wide)


def norms(ours: str, theirs: str, width: int) -> Iterator[Names]:
    for kind in ("weight", "bias"):
        yield f"{ours}.{kind}", [(f"{theirs}.{kind}", (width,))], "out"


def interleaved(width: int) -> Tensor:
    """Returns (D,) the place in Marian's sinusoids, all sines first, of each of ours: sine, cosine, sine ..."""
    if width % 2:
        raise UserError(f"{CONFIG}: d_model={width}: sinusoidal positions come in pairs; the width must be even")
    return torch.arange(width).view(2, -1).t().flatten()


def m2m_positions(length: int, width: int) -> Tensor:
    """Returns (length, D): fairseq's sinusoids, whose frequencies end at exactly 1/10000."""
    half = width // 2
    rate = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
    angles = torch.arange(OFFSET, length + OFFSET).float()[:, None] * rate
    table = torch.cat([angles.sin(), angles.cos()], 1)
    return torch.nn.functional.pad(table, (0, width % 2))


def named(folder: Folder, file: str) -> dict[int, str]:
    """Returns id -> piece of a vocabulary's file, which maps pieces to ids."""
    content = folder.json(file)
    if not all(isinstance(number, int) and number >= 0 for number in content.values()):
        raise UserError(f"{folder.path / file}: must map pieces to ids")
    return {number: piece for piece, number in content.items()}


def marian_order(folder: Folder, names: dict[int, str], size: int) -> Order:
    """Returns our order of a vocabulary of Marian; its special tokens are found by their pieces."""
    ids = {piece: number for number, piece in names.items()}
    for piece in ("<unk>", "</s>"):
        if piece not in ids:
            raise UserError(f"{folder.path}: the vocabulary has no {piece}")
    pad = folder.setting("pad_token_id", int)
    start = folder.setting("decoder_start_token_id", int, pad)
    return our_order(size, pad=pad, unk=ids["<unk>"], eos=ids["</s>"], start=start)


def m2m_names(folder: Folder) -> dict[int, str]:
    """Returns id -> piece of M2M-100: vocab.json, then the languages."""
    names = named(folder, "vocab.json")
    if any(token.startswith("__") for token in added_tokens(folder).values()):
        return names
    first = max(names, default=-1) + 1
    return names | {
        first + number: token for number, token in enumerate(listed_tokens(folder)) if token.startswith("__")
    }


def nllb_names(folder: Folder) -> dict[int, str]:
    """Returns id -> piece of NLLB: four tokens of fairseq, the model's pieces after its first three, the languages."""
    pieces = [piece.piece for piece in read_pieces(folder, PIECES).pieces]
    if not (folder.path / PIECES).is_file():  # tokenizer.json has the network's ids
        return dict(enumerate(pieces))
    names = {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>"}
    names |= {number + 1: piece for number, piece in enumerate(pieces) if number >= 3}
    if added_tokens(folder):
        return names
    languages = [token for token in listed_tokens(folder) if is_language_and_script(token)]
    return names | {len(pieces) + 1 + number: token for number, token in enumerate([*languages, "<mask>"])}


def listed_tokens(folder: Folder) -> list[str]:
    """Returns the additional tokens in the order of their ids, wherever a version of transformers writes them."""
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        content = folder.optional(file)
        for key in ("additional_special_tokens", "extra_special_tokens"):
            listed = content.get(key)
            if isinstance(listed, list) and listed:
                return [str(entry["content"] if isinstance(entry, dict) else entry) for entry in listed]
    raise UserError(f"{folder.path}: neither special_tokens_map.json nor tokenizer_config.json lists the languages")
