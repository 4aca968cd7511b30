"""Small networks of every kind, and the batches that their tests read."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.conf import groups
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.language_network import BEFORE, LanguageNetwork
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.text.batch import TranslationBatch, collate
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, PAD

Settings = dict[str, Any]
VOCABULARY = 30
MODERN: Settings = {"norm": "pre", "norm_kind": "rms", "activation": "swiglu", "positions": "rotary", "kv_heads": 2}
SIZES: Settings = {"width": 16, "heads": 4, "feed_forward": 24, "dropout": 0.0}


def table(base: Settings, changes: Iterable[Settings]) -> dict[str, Settings]:
    """Returns name -> settings; the name tells what differs from the base."""
    return {" ".join([base["architecture"], *map("{0[0]}={0[1]}".format, one.items())]): base | one for one in changes}


TRANSFORMERS = table(
    {"architecture": "transformer", **SIZES, "encoder_layers": 2, "decoder_layers": 2},
    [
        {},
        *({"norm": "pre", "positions": "learned"}, {"kv_heads": 1, "tie": "none"}, {**MODERN, "tie": "target"}),
        {"activation": "gelu_tanh", "output_bias": True, "tie": "inputs"},
        {"activation": "silu", "source_prefix": [7, 8], "target_prefix": [9, 10]},
    ],
)
PREFIXED = table(
    {"architecture": "prefixlm", **SIZES, "layers": 3, "max_positions": 40},
    [
        {},
        *({"norm": "pre", "positions": "learned"}, {"activation": "gelu", "tie": False}, MODERN),
    ],
)
FIXED = {"architecture": "rnnenc", "embedding": 6, "width": 8, "dropout": 0.0}
SEARCH = {"architecture": "rnnsearch", "embedding": 6, "width": 8, "encoder_width": 4, "dropout": 0.0}
RECURRENT: dict[str, Settings] = {
    "fixed": {**FIXED, "layers": 2},
    "fixed, reversed, fed": {**FIXED, "layers": 1, "cell": "gru", "reverse_source": True, "feed_context": True},
    "output, additive": {**SEARCH, "attention_width": 5},
    "output, dot, lstm": {**SEARCH, "attention": "dot", "cell": "lstm", "decoder_layers": 2},
    "state, general, deep": {**SEARCH, "attention": "general", "context": "state", "encoder_layers": 2},
    "feeding, scaled, rnn": {**SEARCH, "attention": "scaled_dot", "context": "feeding", "cell": "rnn_tanh"},
}
TRANSLATION = TRANSFORMERS | PREFIXED | RECURRENT
ATTENDING = table(
    {"architecture": "gpt", **SIZES, "layers": 2, "max_positions": 24},
    [
        {},
        *({"norm": "post", "positions": "sinusoidal"}, {"activation": "relu", "tie": False, "kv_heads": 1}, MODERN),
    ],
)
CARRYING: dict[str, Settings] = {
    **table(
        {"architecture": "rnnlm", "embedding": 4, "width": 5, "layers": 2, "dropout": 0.0, "tie": False},
        [{"cell": cell} for cell in ("rnn_tanh", "lstm", "gru")],
    ),
    "rnnlm_attention": {**groups.merge_choice("model", "rnnlm_attention"), "embedding": 8, "width": 12}
    | {"layers": 2, "dropout": 0.0, "past": 5},
    "statelm_selective": {**groups.merge_choice("model", "statelm_selective"), **SIZES} | {"layers": 2, "states": 4},
}
LINEAR = {**groups.merge_choice("model", "statelm_linear"), **SIZES, "heads": 2, "layers": 2, "max_positions": 24}
LANGUAGE = ATTENDING | CARRYING | {"statelm_linear": LINEAR}


def translation(name: str, vocabulary: int = VOCABULARY, **changes: Any) -> TranslationNetwork:
    torch.manual_seed(0)
    made = build_network(model_config(TRANSLATION[name] | changes), vocabulary, vocabulary).eval()
    return spread(made, 0.4) if name in RECURRENT else made


def language(name: str, **changes: Any) -> LanguageNetwork:
    torch.manual_seed(0)
    made = build_network(model_config(LANGUAGE[name] | changes), VOCABULARY, VOCABULARY)
    assert isinstance(made, LanguageNetwork)
    return (spread(made, 0.5) if name.startswith("rnnlm ") else made).eval()


def spread(network: Any, deviation: float) -> Any:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=deviation)
    return network


def sentences(*lengths: int) -> TranslationBatch:
    """Sources of the given lengths and targets one token longer; EOS included."""
    generator = torch.Generator().manual_seed(1)

    def side(extra: int) -> list[Any]:
        rows = [[*torch.randint(6, VOCABULARY, (n + extra - 1,), generator=generator).tolist(), EOS] for n in lengths]
        return [np.array(row) for row in rows]

    return collate(side(0), side(1), list(range(len(lengths))))


def torch_layers(ours: Any, norm_first: bool) -> nn.TransformerEncoder:
    """torch's own stack of two layers with the weights of ours, and its last normalisation where that comes first."""
    layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, "gelu", batch_first=True, norm_first=norm_first)
    theirs = nn.TransformerEncoder(layer, 2, ours.norm if norm_first else None, enable_nested_tensor=False)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        attention = {"self_attn.in_proj_weight": mine.self_attention.qkv.weight}
        parts = {"self_attn.out_proj": mine.self_attention.out, "norm1": mine.self_sublayer.norm}
        parts |= {"linear1": mine.feed_forward.inner, "linear2": mine.feed_forward.outer}
        parts["norm2"] = mine.feed_forward_sublayer.norm
        weights = {f"{place}.{name}": one for place, part in parts.items() for name, one in part.state_dict().items()}
        other.load_state_dict(attention | {"self_attn.in_proj_bias": mine.self_attention.qkv.bias} | weights)
    return theirs


def tokens(rows: int = 3, length: int = 20, seed: int = 1) -> Tensor:
    """(B, T + 1) tokens, none of them special."""
    return torch.randint(6, VOCABULARY, (rows, length + 1), generator=torch.Generator().manual_seed(seed))


def window(ids: Tensor, lane: int = 0, goes_on: bool = False) -> TextBatch:
    """The window of tokens (B, T + 1): what is read and what follows."""
    inputs, targets = ids[:, :-1], ids[:, 1:]
    return TextBatch(inputs, targets, int((targets != PAD).sum()), np.arange(len(ids)), lane, goes_on)


def texts(*lengths: int) -> TextBatch:
    """Texts of the given lengths from their beginning on."""
    ids = torch.full((len(lengths), max(lengths) + 1), PAD)
    generator = torch.Generator().manual_seed(1)
    for row, length in enumerate(lengths):
        drawn = torch.randint(6, VOCABULARY, (length,), generator=generator)
        ids[row, : length + 1] = torch.cat([torch.tensor([BEFORE]), drawn])
    return TextBatch(ids[:, :-1].where(ids[:, 1:] != PAD, PAD), ids[:, 1:], sum(lengths), np.arange(len(lengths)))


def smooth(settings: Settings) -> Settings:
    """Returns the change that takes a ReLU away: its kinks have no gradient."""
    relu = "feed_forward" in settings and settings.get("activation", "relu") == "relu"
    return {"activation": "gelu"} if relu else {}


def check_gradients(network: nn.Module, loss: Callable[[], Tensor]) -> None:
    """The gradient of the loss along random directions of all parameters is the difference of the loss there."""
    loss().backward()
    torch.manual_seed(4)
    parameters = list(dict.fromkeys(network.parameters()))
    assert all(parameter.grad is not None for parameter in parameters)
    for _ in range(3):
        directions = [torch.randn_like(parameter) for parameter in parameters]
        slope = sum(
            (one.grad * by).sum() for one, by in zip(parameters, directions, strict=True) if one.grad is not None
        )
        sides = []
        with torch.no_grad():
            for step in (1e-6, -2e-6):
                for parameter, by in zip(parameters, directions, strict=True):
                    parameter += step * by
                sides.append(loss())
            for parameter, by in zip(parameters, directions, strict=True):
                parameter += 1e-6 * by
        torch.testing.assert_close((sides[0] - sides[1]) / 2e-6, slope, rtol=1e-6, atol=1e-6)
