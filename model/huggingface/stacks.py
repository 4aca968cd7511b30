"""Networks of one stack, encoders and language models, by a row each: how settings and tensors are named there.

A row is data, read and written by the same functions. A new kind of network is a row with a map of names, and a switch
in `model/layers/transformer_layers.py` only where its mathematics is another.

Theirs                                          ours
token types (BERT), of which a text has one     its row is added to the positions
rotary halves of a head (Llama)                 rotary neighbours: rows of queries and keys move
no biases (Llama)                               biases of 0
a token before a text and another after (Llama) one end of text: its row of the table is that of the one before
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.huggingface.folder import CONFIG, Folder, Imported, ImportOptions, Tensors
from dragoman.model.huggingface.tokenizer import names_of, our_tokenizer, read_content, special_ids
from dragoman.model.huggingface.vocabulary import NONE, Order, our_order
from dragoman.model.layers.roles import roles
from dragoman.model.layers.transformer_layers import Activation
from dragoman.model.networks.architectures import any_network
from dragoman.model.networks.bert import EncoderOnlyConfig
from dragoman.model.networks.gpt import DecoderOnlyConfig
from dragoman.model.networks.network import Network
from dragoman.model.text.tokenizer import BOS, EOS, TokenizerPair

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu",
    "silu": "silu",
}  # fmt: skip
OF_HEAD = ("head", "output")  # begin the names of ours that are no part of the stack
TABLE, POSITIONS, OUTPUT = "embedding.weight", "positions.table", "output.weight"
Found = dict[str, Any]
Setting = tuple[str, Any]  # its name there, and its default: a value, a function of the settings, or None: required


@dataclass(frozen=True)
class Row:
    """A kind of network there."""

    config: type[EncoderOnlyConfig] | type[DecoderOnlyConfig]
    base: str  # begins the names of the stack's tensors, unless the folder holds the stack alone
    settings: Mapping[str, Setting]  # ours -> theirs
    fixed: Mapping[str, Any]  # ours, the same in all of the kind
    names: Mapping[str, tuple[str, ...]]  # ours -> theirs that stand above each other in it; {} is the layer
    output: str  # the output layer's weight
    tied: bool = True  # tie_word_embeddings, if config.json does not say
    needs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # theirs -> values that ours computes
    first_position: int = 0  # rows of the table of positions before that of the first token
    types: str | None = None  # the table of token types
    transposed: bool = False  # products are stored (in, out)
    halves: bool = False  # rotary positions turn number i of a head with number i + K/2
    without_biases: bool = False  # some products have none


SIZES: dict[str, Setting] = {
    "width": ("hidden_size", None), "heads": ("num_attention_heads", None), "layers": ("num_hidden_layers", None),
    "feed_forward": ("intermediate_size", None), "max_positions": ("max_position_embeddings", None),
}  # fmt: skip
FIXED: Found = {"positions": "learned", "scale_table": False, "activation_dropout": 0.0}
ENCODER: Found = {**FIXED, "norm": "post", "embedding_norm": True, "activation": "gelu", "prefix": [BOS]}
BERT = Row(
    EncoderOnlyConfig,
    "bert.",
    {
        **SIZES, "norm_epsilon": ("layer_norm_eps", 1e-12), "dropout": ("hidden_dropout_prob", 0.1),
        "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    },
    ENCODER,
    {
        "embedding": ("embeddings.word_embeddings",),
        "positions": ("embeddings.position_embeddings",),
        "positions.norm": ("embeddings.LayerNorm",),
        "layers.{}.self_attention.qkv": tuple(
            f"encoder.layer.{{}}.attention.self.{part}" for part in ("query", "key", "value")
        ),
        "layers.{}.self_attention.out": ("encoder.layer.{}.attention.output.dense",),
        "layers.{}.self_sublayer.norm": ("encoder.layer.{}.attention.output.LayerNorm",),
        "layers.{}.feed_forward.inner": ("encoder.layer.{}.intermediate.dense",),
        "layers.{}.feed_forward.outer": ("encoder.layer.{}.output.dense",),
        "layers.{}.feed_forward_sublayer.norm": ("encoder.layer.{}.output.LayerNorm",),
        "head": ("cls.predictions.transform.dense",),
        "head_norm": ("cls.predictions.transform.LayerNorm",),
        "output": ("cls.predictions",),
    },
    "cls.predictions.decoder.weight",
    needs={
        "hidden_act": ("gelu",), "position_embedding_type": ("absolute",), "is_decoder": (False,),
        "add_cross_attention": (False,),
    },
    types="embeddings.token_type_embeddings.weight",
)  # fmt: skip
ROBERTA = Row(
    EncoderOnlyConfig,
    "roberta.",
    BERT.settings,
    ENCODER,
    {**BERT.names, "head": ("lm_head.dense",), "head_norm": ("lm_head.layer_norm",), "output": ("lm_head",)},
    "lm_head.decoder.weight",
    needs=BERT.needs,
    first_position=2,
    types=BERT.types,
)
DISTILBERT = Row(
    EncoderOnlyConfig,
    "distilbert.",
    {
        "width": ("dim", None), "heads": ("n_heads", None), "layers": ("n_layers", None),
        "feed_forward": ("hidden_dim", None), "max_positions": ("max_position_embeddings", None),
        "dropout": ("dropout", 0.1), "attention_dropout": ("attention_dropout", 0.1),
    },
    {**ENCODER, "norm_epsilon": 1e-12},
    {
        **{ours: BERT.names[ours] for ours in ("embedding", "positions", "positions.norm")},
        "layers.{}.self_attention.qkv": tuple(f"transformer.layer.{{}}.attention.{part}_lin" for part in "qkv"),
        "layers.{}.self_attention.out": ("transformer.layer.{}.attention.out_lin",),
        "layers.{}.self_sublayer.norm": ("transformer.layer.{}.sa_layer_norm",),
        "layers.{}.feed_forward.inner": ("transformer.layer.{}.ffn.lin1",),
        "layers.{}.feed_forward.outer": ("transformer.layer.{}.ffn.lin2",),
        "layers.{}.feed_forward_sublayer.norm": ("transformer.layer.{}.output_layer_norm",),
        "head": ("vocab_transform",),
        "head_norm": ("vocab_layer_norm",),
        "output": ("vocab_projector",),
    },
    "vocab_projector.weight",
    needs={"activation": ("gelu",)},
)  # fmt: skip
GPT2 = Row(
    DecoderOnlyConfig,
    "transformer.",
    {
        "width": ("n_embd", None), "heads": ("n_head", None), "layers": ("n_layer", None),
        "feed_forward": ("n_inner", lambda sizes: 4 * sizes["width"]), "max_positions": ("n_positions", None),
        "norm_epsilon": ("layer_norm_epsilon", 1e-5), "activation": ("activation_function", "gelu_new"),
        "dropout": ("resid_pdrop", 0.1), "attention_dropout": ("attn_pdrop", 0.1),
    },
    {**FIXED, "norm": "pre"},
    {
        "embedding": ("wte",),
        "positions": ("wpe",),
        "layers.{}.self_attention.qkv": ("h.{}.attn.c_attn",),
        "layers.{}.self_attention.out": ("h.{}.attn.c_proj",),
        "layers.{}.self_sublayer.norm": ("h.{}.ln_1",),
        "layers.{}.feed_forward.inner": ("h.{}.mlp.c_fc",),
        "layers.{}.feed_forward.outer": ("h.{}.mlp.c_proj",),
        "layers.{}.feed_forward_sublayer.norm": ("h.{}.ln_2",),
        "norm": ("ln_f",),
    },
    "lm_head.weight",
    needs={"scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,)},
    transposed=True,
)  # fmt: skip
LLAMA = Row(
    DecoderOnlyConfig,
    "model.",
    {
        **SIZES, "kv_heads": ("num_key_value_heads", lambda sizes: sizes["heads"]),
        "norm_epsilon": ("rms_norm_eps", 1e-6), "attention_dropout": ("attention_dropout", 0.0),
    },
    {**FIXED, "norm": "pre", "norm_kind": "rms", "positions": "rotary", "activation": "swiglu", "dropout": 0.0},
    {
        "embedding": ("embed_tokens",),
        "layers.{}.self_attention.qkv": tuple(f"layers.{{}}.self_attn.{part}_proj" for part in "qkv"),
        "layers.{}.self_attention.out": ("layers.{}.self_attn.o_proj",),
        "layers.{}.self_sublayer.norm": ("layers.{}.input_layernorm",),
        "layers.{}.feed_forward.inner": ("layers.{}.mlp.gate_proj", "layers.{}.mlp.up_proj"),
        "layers.{}.feed_forward.outer": ("layers.{}.mlp.down_proj",),
        "layers.{}.feed_forward_sublayer.norm": ("layers.{}.post_attention_layernorm",),
        "norm": ("norm",),
    },
    "lm_head.weight",
    tied=False,
    needs={"hidden_act": ("silu",)},
    halves=True,
    without_biases=True,
)  # fmt: skip
ROWS = {
    "bert": BERT, "distilbert": DISTILBERT, "gpt2": GPT2, "llama": LLAMA, "mistral": LLAMA, "qwen2": LLAMA,
    "roberta": ROBERTA,
}  # fmt: skip


def read_stack(folder: Folder, _options: ImportOptions) -> Imported:
    """Reads an encoder or a language model of one stack."""
    row = ROWS[folder.config["model_type"]]
    size = folder.setting("vocab_size", int)
    content = read_content(folder)
    names = names_of(folder, content)
    special = special_ids(folder, names)
    order = our_order(
        size, eos=special["eos"], pad=special["pad"], unk=special["unk"], start=special["bos"], mask=special["mask"]
    )
    tokenizer = our_tokenizer(folder, content, names, order)
    tensors = without_base(folder.tensors(), row.base)
    config = shape(folder, row)
    notes: dict[str, object] = {}
    table = tensors.take(f"{row.names['embedding'][0]}.weight", size, config.width)
    tied = folder.setting("tie_word_embeddings", bool, row.tied)
    last = tensors.take(row.output, size, config.width) if row.output in tensors else table if tied else None
    if last is None or (tied and not torch.equal(last, table)):
        raise UserError(
            f"{folder.path}: {CONFIG} {'ties' if tied else 'does not tie'} the tables, and {row.output} "
            f"{'differs' if tied else 'is missing'}; tie_word_embeddings={str(not tied).lower()} imports what is there"
        )
    state: dict[str, Tensor] = {TABLE: order.rows(table), OUTPUT: order.rows(last)}
    if isinstance(config, DecoderOnlyConfig):
        if special["bos"] != NONE:
            state[TABLE][EOS] = table[special["bos"]]  # ours reads an end of text before its first token
            tied = False
        config.absent = order.absent
    config.tie = tied
    network = any_network(config, len(order), len(order))
    for name in network.state_dict().keys() - state.keys():
        state[name] = read_tensor(name, row, network, tensors, order, notes)
    tensors.finish()
    network.load_state_dict(state)
    return Imported(network, TokenizerPair(tokenizer, tokenizer), notes)


def shape(folder: Folder, row: Row) -> Any:
    """Returns our configuration of the network that config.json describes."""
    for theirs, values in row.needs.items():
        if folder.config.get(theirs, values[0]) not in values:
            choices = " or ".join(map(repr, values))
            raise UserError(f"{folder.path / CONFIG}: {theirs}={folder.config[theirs]!r}: ours has {choices}")
    sizes: Found = {"name": str(folder.config["model_type"]), **row.fixed}
    kinds = {"activation": str, "dropout": float, "attention_dropout": float, "norm_epsilon": float}
    for ours, (theirs, default) in row.settings.items():
        value = folder.setting(theirs, kinds.get(ours, int), default(sizes) if callable(default) else default)
        sizes[ours] = float(value) if kinds.get(ours) is float else value
    if "activation" in row.settings:
        if sizes["activation"] not in ACTIVATIONS:
            theirs = row.settings["activation"][0]
            choices = ", ".join(ACTIVATIONS)
            raise UserError(
                f"{folder.path / CONFIG}: {theirs}={sizes['activation']!r} is not known. Choices: {choices}"
            )
        sizes["activation"] = ACTIVATIONS[sizes["activation"]]
    if row.halves:
        sizes |= rotary(folder, sizes)
    sizes["max_positions"] -= row.first_position
    return row.config(**sizes)


def rotary(folder: Folder, sizes: Found) -> Found:
    """Returns the settings of rotary positions and of shared heads.

    Raises UserError: heads of another width, or angles that are scaled.
    """
    heads, width, where = sizes["heads"], sizes["width"], folder.path / CONFIG
    head = folder.setting("head_dim", int, width // heads)
    if head * heads != width:
        raise UserError(f"{where}: head_dim={head}: {heads} heads of it are not hidden_size={width}, as ours are")
    angles = folder.config.get("rope_parameters") or folder.config.get("rope_scaling") or {}
    kind = angles.get("rope_type", angles.get("type", "default"))
    if kind != "default":
        raise UserError(f"{where}: rope_type={kind!r}: ours turns by 'default' angles alone")
    window = folder.config.get("sliding_window") if folder.config.get("use_sliding_window", True) else None
    return {
        "rotary_base": float(angles.get("rope_theta") or folder.setting("rope_theta", float, 10000.0)),
        "kv_heads": 0 if sizes["kv_heads"] == heads else sizes["kv_heads"],
        "max_positions": min(sizes["max_positions"], window or sizes["max_positions"]),
    }


def without_base(tensors: Tensors, base: str) -> Tensors:
    """Returns the tensors with the names of a stack that was saved alone."""
    return Tensors({name.removeprefix(base): tensor for name, tensor in tensors.left.items()}, tensors.where)


class Part(NamedTuple):
    """One of their tensors that stand above each other in one of ours."""

    name: str  # without the base
    rows: int
    heads: int = 0  # whose numbers move between halves and neighbours; 0: none
    transposed: bool = False


def parts_of(row: Row, network: Network, name: str) -> list[Part]:
    """Returns the parts of the tensor `name` of our network."""
    module, _, kind = name.rpartition(".")
    layer = module.split(".")[1] if module.startswith("layers.") else ""
    theirs = row.names.get(module.replace(f".{layer}.", ".{}.", 1) if layer else module, ())
    tensor = network.get_parameter(name)
    rows: Sequence[int] = (len(tensor),)
    if len(theirs) > 1:
        rows = roles(network)[network.get_parameter(f"{module}.weight")].rows
    config: Any = network.config
    heads = (config.heads, config.kv_heads or config.heads, 0) if row.halves and module.endswith("qkv") else (0, 0, 0)
    turned = row.transposed and bool(layer) and tensor.dim() == 2
    return [
        Part(f"{part.format(layer)}.{'weight' if kind == 'table' else kind}", count, own, turned)
        for part, count, own in zip(theirs, rows, heads, strict=False)
    ]


def read_tensor(
    name: str, row: Row, network: Network, tensors: Tensors, order: Order, notes: dict[str, object]
) -> Tensor:
    """Returns the tensor `name` of our network from theirs."""
    ours, parts = network.get_parameter(name), parts_of(row, network, name)
    first = parts[0].name if parts else ""
    if name == "output.bias":
        used = f"{row.output.removesuffix('weight')}bias"  # where the tables are two, the other is not
        held = [tensors.take(bias, max(order.theirs) + 1) for bias in (used, first) if bias in tensors]
        return order.bias(held[0] if held else None)
    if name.startswith(OF_HEAD) and first not in tensors:
        notes["head"] = "not in the folder"  # the stack was saved alone
        return ours.detach()
    if name == POSITIONS:
        table = tensors.take(first, len(ours) + row.first_position, ours.shape[1])
        if row.types is not None and row.types in tensors:
            types = tensors.take(row.types, len(tensors.left[row.types]), ours.shape[1])
            table = table + types[:1]
        return table[row.first_position :]
    weights = []
    for part in parts:
        size = (part.rows, *ours.shape[1:])
        if part.name not in tensors and row.without_biases and name.endswith(".bias"):
            weights.append(torch.zeros(size))
            continue
        tensor = tensors.take(part.name, *(size[::-1] if part.transposed else size))
        tensor = tensor.t() if part.transposed else tensor
        weights.append(neighbours(tensor, part.heads) if part.heads else tensor)
    return torch.cat(weights)


def written_tensors(row: Row, network: Network) -> dict[str, Tensor]:
    """Returns our network's tensors by their names; tables have the scale that a stack there reads."""
    weights = {}
    for name, tensor in network.state_dict().items():
        if name == OUTPUT:
            weights[row.output] = tensor
            continue
        parts = parts_of(row, network, name)  # none for the bias of absent tokens
        if not parts:
            continue
        for part, own in zip(parts, torch.split(tensor, [part.rows for part in parts]), strict=True):
            turned = halves(own, part.heads) if part.heads else own.t() if part.transposed else own
            weights[f"{'' if name.startswith(OF_HEAD) else row.base}{part.name}"] = turned
            if name == TABLE and network.config.scale_table:
                weights[f"{row.base}{part.name}"] = own * network.config.width**0.5
    return weights


def halves(rows: Tensor, heads: int) -> Tensor:
    """rows (heads x K, ...): of each head first the even numbers, then the odd ones."""
    return rows.view(heads, -1, 2, *rows.shape[1:]).transpose(1, 2).flatten(0, 2)


def neighbours(rows: Tensor, heads: int) -> Tensor:
    """rows (heads x K, ...) of `halves` -> as they were."""
    return rows.view(heads, 2, -1, *rows.shape[1:]).transpose(1, 2).flatten(0, 2)
