"""The families of networks in transformers, a row each: how their settings and tensors are named there.

A row is data, read and written by the functions of `weights`. A new family is a row with a map of names, and a switch
in `model/layers/transformer_layers.py` only where its mathematics is another.

Theirs                                          ours
token types (BERT), of which a text has one     its row is added to the positions
rotary halves of a head (Llama)                 rotary neighbours: rows of queries and keys move
no biases (Llama)                               biases of 0
a token before a text and another after (Llama) one end of text: its row of the table is that of the one before
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.model.layers.transformer_layers import Activation
from dragoman.model.networks.bert import EncoderOnlyConfig
from dragoman.model.networks.gpt import DecoderOnlyConfig
from dragoman.model.networks.transformer import TransformerConfig
from dragoman.model.text.tokenizer import BOS

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu",
    "silu": "silu",
}  # fmt: skip
Setting = tuple[str, Any]  # its name there, and its default: a value, a function of the settings, or None: required
Names = dict[str, tuple[str, ...]]  # ours -> theirs that stand above each other in it; {} is the layer


@dataclass(frozen=True)
class Row:
    """A family."""

    config: type[EncoderOnlyConfig] | type[DecoderOnlyConfig] | type[TransformerConfig]
    base: str  # begins the names of the stack's tensors, unless the folder holds the stack alone
    settings: Mapping[str, Setting]  # ours -> theirs
    fixed: Mapping[str, Any]  # ours, the same in all of the family
    names: Names
    output: str = "lm_head.weight"  # the output layer's weight
    tied: bool = True  # tie_word_embeddings, if config.json does not say
    needs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # theirs -> values that ours computes
    same: Sequence[tuple[str, str]] = ()  # settings of both sides for which ours has one
    first_position: int = 0  # rows of the table of positions before that of the first token
    types: str | None = None  # the table of token types
    transposed: bool = False  # products are stored (in, out)
    halves: bool = False  # rotary positions turn number i of a head with number i + K/2
    without_biases: bool = False  # some products have none


def layers(ours: str, theirs: str, parts: Mapping[str, Sequence[str]]) -> Names:
    """Returns the names of a stack's layers from those inside of a layer."""
    return {f"{ours}.{{}}.{name}": tuple(f"{theirs}.{{}}.{part}" for part in parts[name]) for name in parts}


SIZES: dict[str, Setting] = {
    "width": ("hidden_size", None), "heads": ("num_attention_heads", None), "layers": ("num_hidden_layers", None),
    "feed_forward": ("intermediate_size", None), "max_positions": ("max_position_embeddings", None),
}  # fmt: skip
FIXED: dict[str, Any] = {"positions": "learned", "scale_table": False, "activation_dropout": 0.0}
ENCODER = {**FIXED, "norm": "post", "embedding_norm": True, "activation": "gelu", "prefix": [BOS]}
BERT_LAYER = {
    "self_attention.qkv": [f"attention.self.{part}" for part in ("query", "key", "value")],
    "self_attention.out": ["attention.output.dense"],
    "self_sublayer.norm": ["attention.output.LayerNorm"],
    "feed_forward.inner": ["intermediate.dense"],
    "feed_forward.outer": ["output.dense"],
    "feed_forward_sublayer.norm": ["output.LayerNorm"],
}
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
        **layers("layers", "encoder.layer", BERT_LAYER),
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
ROBERTA = replace(
    BERT,
    base="roberta.",
    names={**BERT.names, "head": ("lm_head.dense",), "head_norm": ("lm_head.layer_norm",), "output": ("lm_head",)},
    output="lm_head.decoder.weight",
    first_position=2,
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
        **layers("layers", "transformer.layer", {
            "self_attention.qkv": [f"attention.{part}_lin" for part in "qkv"],
            "self_attention.out": ["attention.out_lin"],
            "self_sublayer.norm": ["sa_layer_norm"],
            "feed_forward.inner": ["ffn.lin1"],
            "feed_forward.outer": ["ffn.lin2"],
            "feed_forward_sublayer.norm": ["output_layer_norm"],
        }),
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
        **layers("layers", "h", {
            "self_attention.qkv": ["attn.c_attn"],
            "self_attention.out": ["attn.c_proj"],
            "self_sublayer.norm": ["ln_1"],
            "feed_forward.inner": ["mlp.c_fc"],
            "feed_forward.outer": ["mlp.c_proj"],
            "feed_forward_sublayer.norm": ["ln_2"],
        }),
        "norm": ("ln_f",),
    },
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
        **layers("layers", "layers", {
            "self_attention.qkv": [f"self_attn.{part}_proj" for part in "qkv"],
            "self_attention.out": ["self_attn.o_proj"],
            "self_sublayer.norm": ["input_layernorm"],
            "feed_forward.inner": ["mlp.gate_proj", "mlp.up_proj"],
            "feed_forward.outer": ["mlp.down_proj"],
            "feed_forward_sublayer.norm": ["post_attention_layernorm"],
        }),
        "norm": ("norm",),
    },
    tied=False,
    needs={"hidden_act": ("silu",)},
    halves=True,
    without_biases=True,
)  # fmt: skip
ROWS = {
    "bert": BERT, "distilbert": DISTILBERT, "gpt2": GPT2, "llama": LLAMA, "mistral": LLAMA, "qwen2": LLAMA,
    "roberta": ROBERTA,
}  # fmt: skip

BART_LAYER = {
    "self_attention.qkv": [f"self_attn.{part}_proj" for part in "qkv"],
    "self_attention.out": ["self_attn.out_proj"],
    "self_sublayer.norm": ["self_attn_layer_norm"],
    "feed_forward.inner": ["fc1"],
    "feed_forward.outer": ["fc2"],
    "feed_forward_sublayer.norm": ["final_layer_norm"],
}
BART_CROSS = {
    "cross_attention.q": ["encoder_attn.q_proj"],
    "cross_attention.kv": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "cross_attention.out": ["encoder_attn.out_proj"],
    "cross_sublayer.norm": ["encoder_attn_layer_norm"],
}
BART = Row(
    TransformerConfig,
    "",
    {
        "width": ("d_model", None), "heads": ("encoder_attention_heads", None),
        "feed_forward": ("encoder_ffn_dim", None), "encoder_layers": ("encoder_layers", None),
        "decoder_layers": ("decoder_layers", None), "dropout": ("dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.0), "activation_dropout": ("activation_dropout", 0.0),
        "activation": ("activation_function", "relu"), "max_positions": ("max_position_embeddings", 512),
        "scale_table": ("scale_embedding", False),
    },
    {"norm": "post", "positions": "learned", "embedding_norm": True, "output_bias": True},
    {
        **layers("encoder", "model.encoder.layers", BART_LAYER),
        **layers("decoder", "model.decoder.layers", BART_LAYER | BART_CROSS),
        **{
            ours.format(ours=mine, theirs=side): (f"model.{side}.{theirs}",)
            for mine, side in (("source", "encoder"), ("target", "decoder"))
            for ours, theirs in (
                ("{ours}_positions", "embed_positions"), ("{ours}_positions.norm", "layernorm_embedding"),
                ("{theirs}_norm", "layer_norm"),
            )
        },
    },
    same=[(f"encoder_{size}", f"decoder_{size}") for size in ("attention_heads", "ffn_dim")],
    first_position=2,  # that of their padding, plus one
)  # fmt: skip
MARIAN = replace(BART, fixed={"norm": "post", "positions": "sinusoidal", "output_bias": True})
M2M = replace(
    BART,
    settings={**BART.settings, "scale_table": ("scale_embedding", True)},
    fixed={"norm": "pre", "positions": "learned", "output_bias": True},
)
