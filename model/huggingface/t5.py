"""T5, T5 1.1, Flan-T5 and mT5 (Raffel et al. 2020, Xue et al. 2021): their weights in our Transformer.

Theirs                                          ours
no factor 1/sqrt(K) at the scores               queries that are sqrt(K) times as large
tables that are not scaled                      tables divided by sqrt(D), which `embed` multiplies by it
an output that is divided by sqrt(D) (T5 1.0)   the same table again, which is divided already
no biases                                       biases of 0
fewer heads than fill the width (mT5)           heads of zeros
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad as pad_end

from dragoman.model.errors import UserError
from dragoman.model.huggingface.folder import CONFIG, Folder, Imported, ImportOptions, Tensors
from dragoman.model.huggingface.pieces import added_tokens, before_added, read_pieces
from dragoman.model.huggingface.vocabulary import our_order, reordered
from dragoman.model.layers.transformer_layers import GATED, Activation
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.normalise import normalise
from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer import TokenizerPair

ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gated-gelu": "geglu", "gated-silu": "swiglu"}
POSITIONS = 512  # tokens, if config.json has no n_positions: distances have no limit
EPSILON = 1e-6  # of our RMSNorm


def read_t5(folder: Folder, options: ImportOptions) -> Imported:
    """Reads a T5ForConditionalGeneration or MT5ForConditionalGeneration."""
    size = folder.setting("vocab_size", int)
    model = read_pieces(folder, "spiece.model")
    names = {number: piece.piece for number, piece in enumerate(model.pieces)}
    pad = folder.setting("pad_token_id", int, 0)
    order = our_order(
        size,
        pad=pad,
        unk=next((number for number, piece in names.items() if piece == "<unk>"), 2),
        eos=folder.setting("eos_token_id", int, 1),
        start=folder.setting("decoder_start_token_id", int, pad),
    )
    tokenizer, notes = reordered(model, names, order, added_tokens(folder), before_added(folder))
    config = shape(folder, prefix_ids(tokenizer, options.prefix))
    tensors = folder.tensors()
    # transformers 5 writes "tied" into every folder: whether the output layer has a matrix of its own, the file says.
    tied = "lm_head.weight" not in tensors
    tables = tensors.tables("", (size, size), config.width, shared=True, tied=tied)
    # T5 1.0 divides what the output layer reads by sqrt(D); T5 1.1, which said "not tied", and mT5 leave it as it is.
    first = folder.config["model_type"] == "t5" and folder.setting("tie_word_embeddings", bool, True)
    divided = first and folder.setting("scale_decoder_outputs", bool, True)
    config.tie = tables.tie(shared=True, scaled=divided)
    network = Transformer(config, len(order), len(order))
    scale = config.width**-0.5
    state = {
        "source_embedding.weight": order.rows(tables.source) * scale,
        "target_embedding.weight": order.rows(tables.target) * scale,
        "output.weight": order.rows(tables.output) * (scale if divided else 1.0),
        "output.bias": order.bias(),
        **stack(tensors, config, folder, "encoder"),
        **stack(tensors, config, folder, "decoder"),
    }
    tensors.finish()
    zeros = {name: torch.zeros_like(weight) for name, weight in network.state_dict().items() if name.endswith(".bias")}
    network.load_state_dict({**zeros, **state})
    return Imported(network, TokenizerPair(tokenizer, tokenizer), notes)


def shape(folder: Folder, prefix: list[int]) -> TransformerConfig:
    """Returns our configuration of the network that config.json describes."""
    width, head, heads = (folder.setting(key, int) for key in ("d_model", "d_kv", "num_heads"))
    if width % head or head * heads > width:
        raise UserError(
            f"{folder.path / CONFIG}: {heads} heads of d_kv={head} are wider than d_model={width}, or do not divide "
            "it: such networks (T5's 3B and 11B) have no form here"
        )
    activation, epsilon = (
        folder.setting("feed_forward_proj", str, "relu"),
        folder.setting("layer_norm_epsilon", float, EPSILON),
    )
    if activation not in ACTIVATIONS:
        choices = ", ".join(ACTIVATIONS)
        raise UserError(f"{folder.path / CONFIG}: feed_forward_proj={activation!r} is not known. Choices: {choices}")
    if epsilon != EPSILON:
        raise UserError(f"{folder.path / CONFIG}: layer_norm_epsilon={epsilon}: ours is {EPSILON}")
    layers = folder.setting("num_layers", int)
    return TransformerConfig(
        name=str(folder.config["model_type"]),
        width=width,
        heads=width // head,
        feed_forward=folder.setting("d_ff", int),
        encoder_layers=layers,
        decoder_layers=folder.setting("num_decoder_layers", int, layers),
        dropout=float(folder.setting("dropout_rate", float, 0.1)),
        norm="pre",
        norm_kind="rms",
        activation=ACTIVATIONS[activation],
        positions="relative",
        relative_buckets=folder.setting("relative_attention_num_buckets", int, 32),
        relative_distance=folder.setting("relative_attention_max_distance", int, 128),
        max_positions=folder.setting("n_positions", int, POSITIONS) + len(prefix),
        output_bias=True,
        source_prefix=prefix,
    )


def stack(tensors: Tensors, config: TransformerConfig, folder: Folder, side: str) -> dict[str, Tensor]:
    """Returns our weights of one side."""
    wide, inner, theirs = config.width, config.feed_forward, folder.setting("num_heads", int)
    head = config.width // config.heads
    narrow = theirs * head

    def product(name: str) -> Tensor:
        """Heads of zeros below theirs."""
        return pad_end(tensors.take(f"{name}.weight", narrow, wide), (0, 0, 0, wide - narrow))

    weights: dict[str, Tensor] = {}
    blocks = config.encoder_layers if side == "encoder" else config.decoder_layers
    for block in range(blocks):
        ours, layer = f"{side}.{block}", f"{side}.block.{block}.layer"
        attentions = [("self", "SelfAttention")] + ([("cross", "EncDecAttention")] if side == "decoder" else [])
        for number, (attention, name) in enumerate(attentions):
            where = f"{layer}.{number}.{name}"
            queries = product(f"{where}.q") * math.sqrt(head)
            keys, values = product(f"{where}.k"), product(f"{where}.v")
            if attention == "self":
                weights[f"{ours}.self_attention.qkv.weight"] = torch.cat([queries, keys, values])
            else:
                weights[f"{ours}.cross_attention.q.weight"] = queries
                weights[f"{ours}.cross_attention.kv.weight"] = torch.cat([keys, values])
            out = pad_end(tensors.take(f"{where}.o.weight", wide, narrow), (0, wide - narrow))
            weights[f"{ours}.{attention}_attention.out.weight"] = out
            weights[f"{ours}.{attention}_sublayer.norm.weight"] = tensors.take(
                f"{layer}.{number}.layer_norm.weight", wide
            )
        last = f"{layer}.{len(attentions)}"
        parts = ("wi_0", "wi_1") if config.activation in GATED else ("wi",)
        rows = [tensors.take(f"{last}.DenseReluDense.{part}.weight", inner, wide) for part in parts]
        weights[f"{ours}.feed_forward.inner.weight"] = torch.cat(rows)
        weights[f"{ours}.feed_forward.outer.weight"] = tensors.take(f"{last}.DenseReluDense.wo.weight", wide, inner)
        weights[f"{ours}.feed_forward_sublayer.norm.weight"] = tensors.take(f"{last}.layer_norm.weight", wide)
    near = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    table = tensors.take(near, config.relative_buckets, theirs)
    weights[f"{side}_relative.table"] = pad_end(table, (0, config.heads - theirs))
    weights[f"{side}_norm.weight"] = tensors.take(f"{side}.final_layer_norm.weight", wide)
    return weights


def prefix_ids(tokenizer: SubwordTokenizer, words: str) -> list[int]:
    """Returns the ids of the words before every source; pieces never cross the space after them."""
    return [int(number) for number in tokenizer.encode([normalise(words)])[0]] if words else []
