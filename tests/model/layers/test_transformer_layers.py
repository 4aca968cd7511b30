"""The switches of the shared layers against the formulas of their papers."""

import math

import pytest
import torch
from torch import nn

from dragoman.model.errors import UserError
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.transformer_layers import BatchNorm, EncoderLayer, FeedForward, RMSNorm, check_layers
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.transformer import Transformer, TransformerConfig

SIZES = {"width": 16, "heads": 4, "feed_forward": 24, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}


def config(**changes: object) -> TransformerConfig:
    return TransformerConfig(**{**SIZES, **changes})  # type: ignore[arg-type]


def test_rms_norm_equals_torchs_and_the_formula() -> None:
    torch.manual_seed(0)
    ours = RMSNorm(6)
    ours.weight.data = torch.randn(6)
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(ours(x), nn.functional.rms_norm(x, (6,), ours.weight, 1e-6))
    row = x[1, 2].tolist()
    scale = math.sqrt(sum(value * value for value in row) / 6 + 1e-6)
    expected = [value / scale * weight for value, weight in zip(row, ours.weight.tolist(), strict=True)]
    assert ours(x)[1, 2].tolist() == pytest.approx(expected, abs=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert ours(x.bfloat16()).dtype == torch.bfloat16
    assert torch.isfinite(ours(torch.zeros(1, 6))).all()


def test_rms_norm_stands_at_every_place_of_layer_normalisation() -> None:
    for place in ("pre", "post"):
        modules = list(Transformer(config(norm=place, norm_kind="rms"), 30, 30).modules())
        assert not any(isinstance(module, nn.LayerNorm) for module in modules)
        assert sum(isinstance(module, RMSNorm) for module in modules) == 5 + 2 * (place == "pre")


def test_swiglu_is_the_papers() -> None:
    """FFN(x) = (Swish(x W) * x V) W2 (Shazeer 2020, equation 6), here with the biases of the original layer."""
    torch.manual_seed(0)
    layer = FeedForward(config(activation="swiglu"))
    x = torch.randn(2, 16)
    w, v = layer.inner.weight.split(24)
    b, c = layer.inner.bias.split(24)
    z = x @ w.T + b
    expected = (z / (1 + (-z).exp()) * (x @ v.T + c)) @ layer.outer.weight.T + layer.outer.bias
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [
        ({}, 4 * 16 * 17 + 2 * 16 * 24 + 24 + 16 + 4 * 16),
        ({"norm_kind": "rms"}, 4 * 16 * 17 + 2 * 16 * 24 + 24 + 16 + 2 * 16),
        ({"activation": "swiglu"}, 4 * 16 * 17 + 3 * 16 * 24 + 2 * 24 + 16 + 4 * 16),
        ({"activation": "swiglu", "feed_forward": 16}, 4 * 16 * 17 + 2 * 16 * 24 + 2 * 16 + 16 + 4 * 16),
        ({"kv_heads": 1}, 2 * 16 * 17 + 2 * 4 * 17 + 2 * 16 * 24 + 24 + 16 + 4 * 16),
        ({"positions": "rotary"}, 4 * 16 * 17 + 2 * 16 * 24 + 24 + 16 + 4 * 16),
    ],
)
def test_a_layer_has_the_parameters_of_its_formula(changes: dict[str, object], parameters: int) -> None:
    layer = EncoderLayer(config(**changes))
    assert sum(parameter.numel() for parameter in layer.parameters()) == parameters


def test_the_papers_layers_are_the_default() -> None:
    """Registered bundles name their weights so."""
    names = [name for name, _ in Transformer(config(), 30, 30).named_parameters()]
    assert len(names) == 1 + 12 + 20  # output and target_embedding are one
    assert [name.removeprefix("decoder.0.") for name in names if name.startswith("decoder.0.")] == [
        "self_attention.qkv.weight", "self_attention.qkv.bias", "self_attention.out.weight", "self_attention.out.bias",
        "self_sublayer.norm.weight", "self_sublayer.norm.bias",
        "cross_attention.q.weight", "cross_attention.q.bias", "cross_attention.kv.weight", "cross_attention.kv.bias",
        "cross_attention.out.weight", "cross_attention.out.bias",
        "cross_sublayer.norm.weight", "cross_sublayer.norm.bias",
        "feed_forward.inner.weight", "feed_forward.inner.bias", "feed_forward.outer.weight", "feed_forward.outer.bias",
        "feed_forward_sublayer.norm.weight", "feed_forward_sublayer.norm.bias",
    ]  # fmt: skip


NETWORKS: dict[str, dict[str, object]] = {
    "bert": {"layers": 2},
    "gpt": {"layers": 2},
    "prefixlm": {"layers": 2},
    "transformer": {"encoder_layers": 1, "decoder_layers": 1},
}
PLACES: list[tuple[dict[str, float], dict[str, float]]] = [
    ({}, {"residual": 0.3, "attention": 0.3, "activation": 0.3}),
    ({"attention_dropout": 0.0}, {"residual": 0.3, "attention": 0.0, "activation": 0.3}),
    ({"attention_dropout": 0.0, "activation_dropout": 0.1}, {"residual": 0.3, "attention": 0.0, "activation": 0.1}),
]


@pytest.mark.parametrize(("changes", "expected"), PLACES)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_place_of_every_network_has_its_share(
    name: str, changes: dict[str, float], expected: dict[str, float]
) -> None:
    settings = {"architecture": name, "width": 8, "heads": 2, "feed_forward": 8, "dropout": 0.3}
    network = build_network(model_config({**settings, **NETWORKS[name], **changes}), 30, 30)
    found: dict[str, set[float]] = {}
    for path, module in network.named_modules():
        if isinstance(module, Dropout):
            owner = path.removesuffix("dropout").rstrip(".").rpartition(".")[2]
            place = {"self_attention": "attention", "cross_attention": "attention", "feed_forward": "activation"}
            found.setdefault(place.get(owner, "residual"), set()).add(module.p)
    assert found == {place: {share} for place, share in expected.items()}


def test_without_attention_dropout_training_leaves_the_weights_of_attention_alone() -> None:
    x = torch.randn(2, 5, 16)
    layer = EncoderLayer(config(dropout=0.5, attention_dropout=0.0, activation_dropout=0.0)).train()
    first, again = (layer.self_attention(x)[0] for _ in range(2))
    assert torch.equal(first, again) and torch.equal(layer.feed_forward(x), layer.feed_forward(x))
    assert not torch.equal(layer(x, None)[0], layer(x, None)[0])  # what joins the residual is dropped
    everywhere = EncoderLayer(config(dropout=0.5)).train()
    assert not torch.equal(everywhere.self_attention(x)[0], everywhere.self_attention(x)[0])
    assert not torch.equal(everywhere.feed_forward(x), everywhere.feed_forward(x))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, r"model\.heads=3: must divide model\.width=16"),
        ({"kv_heads": 3}, r"model\.kv_heads=3: must divide model\.heads=4\. Choices: 1, 2, 4, or 0"),
        ({"kv_heads": -2}, r"model\.kv_heads=-2: must divide"),
        ({"width": 15, "heads": 5}, "even width"),
        ({"width": 12, "positions": "rotary"}, r"rotary: turns pairs of numbers, but a head has 3"),
        ({"dropout": 1.0}, r"model\.dropout=1\.0: must be at least 0 and below 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_layers(config(**changes))


def test_batch_statistics_let_a_sentence_depend_on_its_neighbours_padding() -> None:
    """Why BatchNorm fails on text: in training the same sentence differs with the batch; with LayerNorm it does not."""
    torch.manual_seed(0)
    short = torch.randn(1, 3, 8)
    alone = torch.cat([short, torch.randn(1, 3, 8)])
    padded = nn.functional.pad(alone, (0, 0, 0, 9))
    batch, layer = BatchNorm(8).train(), nn.LayerNorm(8)
    assert (batch(alone)[0] - batch(padded)[0, :3]).abs().max() > 0.5
    torch.testing.assert_close(layer(alone)[0], layer(padded)[0, :3])
    torch.testing.assert_close(batch.eval()(alone)[0], batch(padded)[0, :3])


def test_batch_norm_is_torchs() -> None:
    torch.manual_seed(0)
    ours, theirs = BatchNorm(8), nn.BatchNorm1d(8)
    for _ in range(3):
        x = torch.randn(4, 5, 8)
        torch.testing.assert_close(ours(x).flatten(0, 1), theirs(x.flatten(0, 1)))
    torch.testing.assert_close(ours.eval()(x).flatten(0, 1), theirs.eval()(x.flatten(0, 1)))
    assert torch.isfinite(ours.train()(x[:1, :1])).all()
