"""Marian, BART and M2M-100 (NLLB): the same stack of layers, to and from ours.

    BART      post-norm, tables of positions, a normalisation before the first layer, <s> before both sides
    Marian    post-norm, sinusoids with all sines before all cosines, one vocabulary or one a side, a bias per token
    M2M-100   pre-norm, sinusoids of other frequencies (a table here), the languages as tokens before both sides

Marian's order of sinusoids is ours after a permutation of the width, so the permutation moves all columns and rows that
meet the residual stream, and none inside of a head or of the feed-forward layer.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.huggingface.families import BART, M2M, MARIAN, Row
from dragoman.model.huggingface.folder import CONFIG, Folder, Imported, ImportOptions, Tensors
from dragoman.model.huggingface.pieces import added_tokens, before_added, read_pieces
from dragoman.model.huggingface.tokenizer import read_tokenizer
from dragoman.model.huggingface.vocabulary import (
    Order,
    is_language_and_script,
    language_token,
    our_order,
    reordered,
    some,
)
from dragoman.model.huggingface.weights import fill, first_position, shape
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.tokenizer import TokenizerPair

PIECES = "sentencepiece.bpe.model"


def read_marian(folder: Folder, options: ImportOptions) -> Imported:
    """Reads a MarianMTModel, such as those of OPUS-MT."""
    tensors = folder.tensors()
    config = shape(folder, MARIAN, tensors)
    shared = folder.setting("share_encoder_decoder_embeddings", bool, True)
    sizes = [vocabulary(folder, MARIAN, tensors, "encoder")]
    sizes.append(sizes[0] if shared else vocabulary(folder, MARIAN, tensors, "decoder"))
    names = [named(folder, "vocab.json"), named(folder, "vocab.json" if shared else "target_vocab.json")]
    orders = [marian_order(folder, side, size) for side, size in zip(names, sizes, strict=True)]
    added = {number: token for number, token in added_tokens(folder).items() if names[0].get(number) != token}
    if added and not shared:
        raise UserError(f"{folder.path}: tokens are added ({some(list(added.values()))}) to a vocabulary a side")
    (source, notes), (target, more) = (
        reordered(read_pieces(folder, file), side, order, added, before_added(folder))
        for file, side, order in zip(("source.spm", "target.spm"), names, orders, strict=True)
    )
    tokens = {piece: number for number, piece in names[0].items() if piece.startswith(">>") and piece.endswith("<<")}
    if tokens:
        theirs = language_token(tokens, options.target_language, options.target_token, "imports.target_token")
        config.source_prefix = [orders[0].ours(theirs)]
    elif options.target_token is not None:
        raise UserError(f"imports.target_token={options.target_token}: this model has one target language")
    network = read_network(folder, MARIAN, config, tensors, orders, interleaved(config.width), shared=shared)
    lacking = notes.get("pieces_without_id", 0) + more.get("pieces_without_id", 0)
    return Imported(network, TokenizerPair(source, target), notes | ({"pieces_without_id": lacking} if lacking else {}))


def read_bart(folder: Folder, _options: ImportOptions) -> Imported:
    tensors = folder.tensors()
    config = shape(folder, BART, tensors)
    tokenizer, order, special = read_tokenizer(folder, vocabulary(folder, BART, tensors), "eos")
    config.source_prefix, config.target_prefix = [order.ours(special["bos"])], [order.ours(special["bos"])]
    return Imported(read_network(folder, BART, config, tensors, [order, order]), TokenizerPair(tokenizer, tokenizer))


def read_m2m(folder: Folder, options: ImportOptions) -> Imported:
    """Reads an M2M100ForConditionalGeneration: M2M-100 and, if it has no vocab.json, NLLB."""
    row, tensors = replace(M2M, first_position=first_position(folder, M2M)), folder.tensors()
    config = shape(folder, row, tensors)
    added = added_tokens(folder)
    names = m2m_names(folder) if (folder.path / "vocab.json").is_file() else nllb_names(folder)
    names |= added
    ids = {piece: number for number, piece in names.items()}
    order = our_order(
        vocabulary(folder, row, tensors),
        pad=folder.setting("pad_token_id", int, row.read["pad_token_id"]),
        unk=ids.get("<unk>", 3),
        eos=folder.setting("eos_token_id", int, row.read["eos_token_id"]),
        start=folder.setting("decoder_start_token_id", int, row.read["decoder_start_token_id"]),
        mask=ids.get("<mask>", -1),
    )
    tokenizer, notes = reordered(read_pieces(folder, PIECES), names, order, added, before_added(folder))
    tokens = {piece: number for piece, number in ids.items() if piece.startswith("__") or is_language_and_script(piece)}
    config.source_prefix, config.target_prefix = (
        [order.ours(language_token(tokens, language, token, f"imports.{side}_token"))]
        for side, language, token in (
            ("source", options.source_language, options.source_token),
            ("target", options.target_language, options.target_token),
        )
    )
    return Imported(
        read_network(folder, row, config, tensors, [order, order]), TokenizerPair(tokenizer, tokenizer), notes
    )


def read_network(
    folder: Folder,
    row: Row,
    config: TransformerConfig,
    tensors: Tensors,
    orders: Sequence[Order],
    width_order: Tensor | None = None,
    shared: bool = True,
) -> Transformer:
    """Returns the network with its weights; `shared`: both sides have one table."""
    sizes = max(orders[0].theirs) + 1, max(orders[1].theirs) + 1
    tied = folder.setting("tie_word_embeddings", bool, row.read["tie_word_embeddings"])
    tables = tensors.tables(sizes, config.width, shared=shared, tied=tied)
    config.tie = tables.tie(shared=shared)
    network = Transformer(config, *map(len, orders))
    computed = row.after_padding  # M2M-100's positions, although they are a table here
    bias = None if computed else tensors.take("final_logits_bias", 1, sizes[1])[0]
    columns = slice(None) if width_order is None else width_order
    state = {
        "source_embedding.weight": orders[0].rows(tables.source)[:, columns],
        "target_embedding.weight": orders[1].rows(tables.target)[:, columns],
        "output.weight": orders[1].rows(tables.output)[:, columns],
        "output.bias": orders[1].bias(bias),
    }
    if computed:
        table = m2m_positions(config.max_positions, config.width, row.first_position)
        state |= {"source_positions.table": table, "target_positions.table": table}
    fill(network, row, tensors, state, {}, width_order=width_order)
    return network


def vocabulary(folder: Folder, row: Row, tensors: Tensors, side: str = "encoder") -> int:
    """Returns the size of a side's vocabulary."""
    size: int = folder.setting("vocab_size", int, row.read["vocab_size"])
    size = folder.setting("decoder_vocab_size", int, size) if side == "decoder" else size
    for name in ("model.shared.weight", f"model.{side}.embed_tokens.weight"):
        if name in tensors and len(tensors.left[name]) != size:
            key = "decoder_vocab_size" if side == "decoder" else "vocab_size"
            raise UserError(f"{folder.path / CONFIG}: {key}={size}: the weights have {len(tensors.left[name])} tokens")
    return size


def interleaved(width: int) -> Tensor:
    """Returns (D,) the place in Marian's sinusoids, all sines first, of each of ours: sine, cosine, sine ..."""
    if width % 2:
        raise UserError(f"{CONFIG}: d_model={width}: sinusoidal positions come in pairs; the width must be even")
    return torch.arange(width).view(2, -1).t().flatten()


def m2m_positions(length: int, width: int, first: int) -> Tensor:
    """Returns (length, D): fairseq's sinusoids from position `first` on, whose frequencies end at exactly 1/10000."""
    half = width // 2
    rate = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
    angles = torch.arange(first, length + first).float()[:, None] * rate
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
    pad = folder.setting("pad_token_id", int, MARIAN.read["pad_token_id"])
    start = folder.setting("decoder_start_token_id", int, MARIAN.read["decoder_start_token_id"])
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
