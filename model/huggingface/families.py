"""The families of networks in transformers, a row each: how their settings and tensors are named there.

A row is data, read and written by the functions of `weights`. It lists the keys of config.json that are read, those
that must have a value, and those that do not matter; any other key is refused, since nobody knows what it changes. A
new family is a row with a map of names, and a switch in `model/layers/transformer_layers.py` only where its mathematics
is another.

Theirs                                          ours
token types (BERT), of which a text has one     its row is added to the positions
rotary halves of a head (Llama)                 rotary neighbours: rows of queries and keys move
no biases (Llama)                               biases of 0
a token before a text and another after (Llama) one end of text: its row of the table is that of the one before
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
Setting = tuple[str, Any]  # its name there, and its default there: a value, or a function of the other settings
Names = dict[str, tuple[str, ...]]  # ours -> theirs that stand above each other in it; {} is the layer


@dataclass(frozen=True)
class Row:
    """A family."""

    config: type[EncoderOnlyConfig] | type[DecoderOnlyConfig] | type[TransformerConfig]
    base: str  # begins the names of the stack's tensors, unless the folder holds the stack alone
    settings: Mapping[str, Setting]  # ours -> theirs
    fixed: Mapping[str, Any]  # ours, the same in all of the family
    names: Names
    read: Mapping[str, Any]  # other keys that are read -> their default there
    needs: Mapping[str, tuple[Any, ...]]  # keys -> the values that ours computes, the default there first
    ignored: Sequence[str]  # keys that do not matter, beside those of ABOUT and of generation
    output: str = "lm_head.weight"  # the output layer's weight
    same: Sequence[tuple[str, str]] = ()  # settings of both sides for which ours has one
    first_position: int = 0  # rows of the table of positions before that of the first token
    after_padding: bool = False  # that is the row behind pad_token_id
    types: str | None = None  # the table of token types
    transposed: bool = False  # products are stored (in, out)
    halves: bool = False  # rotary positions turn number i of a head with number i + K/2
    without_biases: bool = False  # some products have none


def layers(ours: str, theirs: str, parts: Mapping[str, Sequence[str]]) -> Names:
    """Returns the names of a stack's layers from those inside of a layer."""
    return {f"{ours}.{{}}.{name}": tuple(f"{theirs}.{{}}.{part}" for part in parts[name]) for name in parts}


# keys of any family that say nothing about what the network computes
ABOUT = {
    *("architectures", "model_type", "transformers_version", "_name_or_path", "_commit_hash", "dtype", "torch_dtype"),
    *("use_cache", "output_attentions", "output_hidden_states", "output_past", "return_dict", "torchscript"),
    *("id2label", "label2id", "_num_labels", "num_labels", "problem_type", "finetuning_task", "tokenizer_class"),
    *("initializer_range", "init_std", "classifier_dropout", "classif_dropout", "gradient_checkpointing", "prefix"),
    *(
        "chunk_size_feed_forward",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "sep_token_id",
        "task_specific_params",
    ),
}
ALONE = {
    "is_decoder": (False,), "is_encoder_decoder": (False,), "add_cross_attention": (False,), "pruned_heads": ({},),
    "tie_encoder_decoder": (False,),
}  # fmt: skip


def sizes(width: int, heads: int, layers: int, feed_forward: int, positions: int) -> dict[str, Setting]:
    """Returns the settings of a stack, with their defaults there."""
    return {
        "width": ("hidden_size", width), "heads": ("num_attention_heads", heads),
        "layers": ("num_hidden_layers", layers), "feed_forward": ("intermediate_size", feed_forward),
        "max_positions": ("max_position_embeddings", positions),
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
        **sizes(768, 12, 12, 3072, 512), "norm_epsilon": ("layer_norm_eps", 1e-12),
        "dropout": ("hidden_dropout_prob", 0.1), "attention_dropout": ("attention_probs_dropout_prob", 0.1),
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
    {"vocab_size": 30522, "tie_word_embeddings": True},
    {**ALONE, "hidden_act": ("gelu",), "position_embedding_type": ("absolute",)},
    [
        "type_vocab_size", "directionality",
        *(f"pooler_{part}" for part in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")),
    ],
    output="cls.predictions.decoder.weight",
    types="embeddings.token_type_embeddings.weight",
)  # fmt: skip
ROBERTA = replace(
    BERT,
    base="roberta.",
    names={**BERT.names, "head": ("lm_head.dense",), "head_norm": ("lm_head.layer_norm",), "output": ("lm_head",)},
    read={**BERT.read, "vocab_size": 50265, "pad_token_id": 1},
    output="lm_head.decoder.weight",
    after_padding=True,
)
GPT2 = Row(
    DecoderOnlyConfig,
    "transformer.",
    {
        "width": ("n_embd", 768), "heads": ("n_head", 12), "layers": ("n_layer", 12),
        "feed_forward": ("n_inner", lambda sizes: 4 * sizes["width"]), "max_positions": ("n_positions", 1024),
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
    {"vocab_size": 50257, "tie_word_embeddings": True},
    {**ALONE, "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,)},
    [
        "embd_pdrop", "reorder_and_upcast_attn", "n_ctx", "n_special", "predict_special_tokens",
        *(f"summary_{part}" for part in ("type", "use_proj", "activation", "proj_to_labels", "first_dropout")),
    ],
    transposed=True,
)  # fmt: skip
ROTARY = {"head_dim": None, "rope_parameters": None, "rope_scaling": None, "rope_theta": 10000.0}
LLAMA = Row(
    DecoderOnlyConfig,
    "model.",
    {
        **sizes(4096, 32, 32, 11008, 2048), "kv_heads": ("num_key_value_heads", lambda sizes: sizes["heads"]),
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
    {"vocab_size": 32000, "tie_word_embeddings": False, **ROTARY},
    {**ALONE, "hidden_act": ("silu",), "pretraining_tp": (1,)},
    ["attention_bias", "mlp_bias"],  # the tensors are there or not
    halves=True,
    without_biases=True,
)  # fmt: skip
ROWS = {"bert": BERT, "gpt2": GPT2, "llama": LLAMA, "roberta": ROBERTA}

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
        "width": ("d_model", 1024), "heads": ("encoder_attention_heads", 16),
        "feed_forward": ("encoder_ffn_dim", 4096), "encoder_layers": ("encoder_layers", 12),
        "decoder_layers": ("decoder_layers", 12), "dropout": ("dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.0), "activation_dropout": ("activation_dropout", 0.0),
        "activation": ("activation_function", "gelu"), "max_positions": ("max_position_embeddings", 1024),
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
    {
        "vocab_size": 50265, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
        "tie_word_embeddings": True, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096,
    },
    {"is_encoder_decoder": (True,), "is_decoder": (False,), "add_cross_attention": (False,), "pruned_heads": ({},)},
    [  # layers that a training leaves out; what classes of older versions could switch, and these cannot
        "encoder_layerdrop", "decoder_layerdrop", "num_hidden_layers", "add_bias_logits", "add_final_layer_norm",
        "extra_pos_embeddings", "normalize_before", "normalize_embedding", "static_position_embeddings",
    ],
    same=[(f"encoder_{size}", f"decoder_{size}") for size in ("attention_heads", "ffn_dim")],
    first_position=2,
)  # fmt: skip
MARIAN = replace(
    BART,
    fixed={"norm": "post", "positions": "sinusoidal", "output_bias": True},
    read={
        **BART.read, "vocab_size": 58101, "pad_token_id": 58100, "eos_token_id": 0, "decoder_start_token_id": 58100,
        "decoder_vocab_size": None, "share_encoder_decoder_embeddings": True,
    },
)  # fmt: skip
M2M = replace(
    BART,
    settings={
        **BART.settings, "scale_table": ("scale_embedding", True), "attention_dropout": ("attention_dropout", 0.1),
        "activation": ("activation_function", "relu"),
    },
    fixed={"norm": "pre", "positions": "learned", "output_bias": True},
    read={**BART.read, "vocab_size": 128_112},
    after_padding=True,
)  # fmt: skip
