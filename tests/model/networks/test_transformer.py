"""The Transformer against torch.nn.Transformer with the same weights, and against the paper's formulas."""

import math

import pytest
import torch
from torch import nn

from dragoman.model.errors import UserError
from dragoman.model.layers.positions import sinusoids
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.tokenizer import PAD
from tests.model.networks.examples import sentences

SIZES = {"width": 16, "heads": 4, "feed_forward": 32, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}


def network(**changes: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**{**SIZES, **changes}), 30, 30)  # type: ignore[arg-type]


def torch_twin(ours: Transformer) -> nn.Transformer:
    """torch's own stacks with our weights."""
    c = ours.config
    theirs = nn.Transformer(
        c.width, c.heads, c.encoder_layers, c.decoder_layers, c.feed_forward, c.dropout, c.activation,
        batch_first=True, norm_first=c.norm == "pre",
    )  # fmt: skip
    if c.norm == "post":  # torch adds a last normalisation that the paper's post-norm model has not got
        theirs.encoder.norm = theirs.decoder.norm = None
    else:
        theirs.encoder.norm.load_state_dict(ours.encoder_norm.state_dict())  # type: ignore[union-attr]
        theirs.decoder.norm.load_state_dict(ours.decoder_norm.state_dict())  # type: ignore[union-attr]
    for mine, other in zip(ours.encoder, theirs.encoder.layers, strict=True):
        _copy_attention(mine.self_attention.qkv, mine.self_attention.out, other.self_attn)
        _copy_rest(mine, other, [mine.self_sublayer, mine.feed_forward_sublayer])
    for mine, other in zip(ours.decoder, theirs.decoder.layers, strict=True):
        _copy_attention(mine.self_attention.qkv, mine.self_attention.out, other.self_attn)
        cross = nn.Linear(1, 1)
        cross.weight.data = torch.cat([mine.cross_attention.q.weight.data, mine.cross_attention.kv.weight.data])
        cross.bias.data = torch.cat([mine.cross_attention.q.bias.data, mine.cross_attention.kv.bias.data])
        _copy_attention(cross, mine.cross_attention.out, other.multihead_attn)
        _copy_rest(mine, other, [mine.self_sublayer, mine.cross_sublayer, mine.feed_forward_sublayer])
    return theirs


def _copy_attention(joint: nn.Linear, out: nn.Linear, other: nn.MultiheadAttention) -> None:
    other.in_proj_weight.data, other.in_proj_bias.data = joint.weight.data, joint.bias.data
    other.out_proj.weight.data, other.out_proj.bias.data = out.weight.data, out.bias.data


def _copy_rest(mine: nn.Module, other: nn.Module, sublayers: list) -> None:  # type: ignore[type-arg]
    other.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
    other.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
    for number, sublayer in enumerate(sublayers, 1):
        getattr(other, f"norm{number}").load_state_dict(sublayer.norm.state_dict())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # about a fast path of torch's that we do not use
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_equals_torch_transformer_with_the_same_weights(norm: str, activation: str) -> None:
    ours = network(norm=norm, activation=activation)
    theirs = torch_twin(ours)
    b = sentences(3, 7, 5)
    real = b.source != PAD
    scale = math.sqrt(ours.config.width)
    table = sinusoids(20, 16)
    source = ours.source_embedding(b.source) * scale + table[: b.source.shape[1]]
    target = ours.target_embedding(b.target_in) * scale + table[: b.target_in.shape[1]]
    causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    expected = theirs(source, target, tgt_mask=causal, src_key_padding_mask=~real, memory_key_padding_mask=~real)
    kept = b.target_out != PAD
    torch.testing.assert_close(ours(b)[kept], expected[kept], rtol=1e-4, atol=1e-5)


def test_layers_with_zero_outputs_change_nothing_at_first() -> None:
    ours = network(norm="pre", zero_outputs=True)
    b = sentences(3, 7, 5)
    first, *others, last = ours.layer_states(b.source)
    assert all(torch.equal(state, first) for state in others)
    torch.testing.assert_close(last, ours.encoder_norm(first))
    target = (
        ours.target_embedding(b.target_in) * math.sqrt(ours.config.width) + sinusoids(20, 16)[: b.target_in.shape[1]]
    )
    torch.testing.assert_close(ours(b), ours.decoder_norm(target))


def test_more_tokens_than_positions_are_refused() -> None:
    with pytest.raises(UserError, match=r"longer than model\.max_positions=4"):
        network(max_positions=4)(sentences(5))


def test_attention_maps_are_distributions_with_readable_names() -> None:
    maps = network().eval().attention_maps(sentences(3, 5))
    assert sorted(maps) == [
        "decoder.0.cross", "decoder.0.self", "decoder.1.cross", "decoder.1.self", "encoder.0", "encoder.1",
    ]  # fmt: skip
    assert maps["decoder.0.cross"].shape == (2, 4, 6, 5)
    for weights in maps.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
