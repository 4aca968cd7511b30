"""The decoder-only language model against torch's layers with the same weights, and step by step against itself."""

import numpy as np
import pytest
import torch
from torch import nn

from dragoman.conf import groups
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, model_config
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.networks.language_network import BEFORE, language_loss
from dragoman.model.settings import LossConfig
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD, UNK

SIZES = {"width": 16, "heads": 4, "feed_forward": 24, "layers": 2, "dropout": 0.0, "max_positions": 12}
SWITCHES: list[dict[str, object]] = [
    {},
    {"norm": "post"},
    {"norm_kind": "rms"},
    {"activation": "swiglu"},
    {"activation": "relu", "tie": False},
    {"positions": "rotary"},
    {"positions": "sinusoidal"},
    {"kv_heads": 1},
    {"norm_kind": "rms", "activation": "swiglu", "positions": "rotary", "kv_heads": 2},
]


def network(**changes: object) -> DecoderOnly:
    torch.manual_seed(0)
    return DecoderOnly(DecoderOnlyConfig(**{**SIZES, **changes}), 30).eval()  # type: ignore[arg-type]


def batch(*lengths: int, start: int = 0) -> TextBatch:
    """Rows of the given lengths."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.full((len(lengths), max(lengths)), PAD)
    targets = inputs.clone()
    for row, length in enumerate(lengths):
        tokens = torch.cat([torch.tensor([BEFORE]), torch.randint(6, 30, (length,), generator=generator)])
        inputs[row, :length], targets[row, :length] = tokens[:-1], tokens[1:]
    return TextBatch(inputs, targets, sum(lengths), 0, np.arange(start, start + len(lengths)))


def test_equals_torchs_layers_with_the_same_weights() -> None:
    ours = network()
    layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, "gelu", batch_first=True, norm_first=True)
    theirs = nn.TransformerEncoder(layer, 2, ours.norm, enable_nested_tensor=False)  # type: ignore[arg-type]  # a norm
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        attention, forward = mine.self_attention, mine.feed_forward  # type: ignore[union-attr]  # an EncoderLayer
        other.load_state_dict(
            {
                "self_attn.in_proj_weight": attention.qkv.weight,
                "self_attn.in_proj_bias": attention.qkv.bias,
                **{f"self_attn.out_proj.{name}": value for name, value in attention.out.state_dict().items()},
                **{f"linear1.{name}": value for name, value in forward.inner.state_dict().items()},
                **{f"linear2.{name}": value for name, value in forward.outer.state_dict().items()},
                **{f"norm1.{name}": value for name, value in mine.self_sublayer.norm.state_dict().items()},  # type: ignore[union-attr]
                **{f"norm2.{name}": value for name, value in mine.feed_forward_sublayer.norm.state_dict().items()},  # type: ignore[union-attr]
            }
        )
    b = batch(7, 7)
    x = ours.embedding(b.inputs) * 4 + ours.positions.table[:7]
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    torch.testing.assert_close(ours(b), theirs(x, mask, is_causal=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_cached_steps_equal_the_whole(switches: dict[str, object]) -> None:
    ours = network(**switches)
    b = batch(9, 9)
    expected = ours.logits(ours(b))
    state = ours.start(2, torch.device("cpu"))
    for t in range(9):
        logits, state = ours.step(b.inputs[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], rtol=1e-4, atol=1e-5)
    assert state["key.0"].shape == (2, ours.config.kv_heads or 4, 9, 4)
    state = ours.start(2, torch.device("cpu"))
    for part, last in ((slice(0, 4), 3), (slice(4, 5), 4), (slice(5, 9), 8)):
        logits, state = ours.read(b.inputs[:, part], state)
        torch.testing.assert_close(logits, expected[:, last], rtol=1e-4, atol=1e-5)


def test_reordered_states_go_on_as_their_rows() -> None:
    ours = network(positions="rotary")
    b = batch(5, 5)
    _, state = ours.read(b.inputs[:, :4], ours.start(2, torch.device("cpu")))
    rows = torch.tensor([1, 1, 0])
    logits, _ = ours.step(b.inputs[rows, 4], ours.reorder(state, rows))
    torch.testing.assert_close(logits, ours.logits(ours(b)[:, 4])[rows], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_a_text_alone_equals_the_text_among_longer_ones(switches: dict[str, object]) -> None:
    ours = network(**switches)
    torch.testing.assert_close(ours(batch(4, 9))[0, :4], ours(batch(4))[0], rtol=1e-4, atol=1e-5)


def test_no_position_sees_a_later_one() -> None:
    ours = network()
    b = batch(8)
    before, maps = ours(b), ours.attention_maps(b)
    assert sorted(maps) == ["decoder.0.self", "decoder.1.self"]
    for weights in maps.values():
        assert weights.shape == (1, 4, 8, 8)
        assert torch.equal(weights.triu(1), torch.zeros_like(weights))
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 8))
    b.inputs[0, 5] = 6 if b.inputs[0, 5] != 6 else 7
    after = ours(b)
    torch.testing.assert_close(after[:, :5], before[:, :5])
    assert not torch.allclose(after[:, 5:], before[:, 5:])


@pytest.mark.parametrize("switches", [{}, SWITCHES[-1]], ids=str)
def test_gradients_match_finite_differences(switches: dict[str, object]) -> None:
    torch.manual_seed(0)
    sizes = {"width": 8, "heads": 2, "feed_forward": 4, "layers": 1, "dropout": 0.0}
    config = DecoderOnlyConfig(**{**sizes, **switches, "kv_heads": 1})  # type: ignore[arg-type]
    ours = DecoderOnly(config, 30).double()
    b = batch(3, 2)
    names = ["layers.0.self_attention.qkv.weight", "layers.0.feed_forward.inner.weight", "norm.weight"]
    named = dict(ours.named_parameters())

    def loss(*values: torch.Tensor) -> torch.Tensor:
        states = torch.func.functional_call(ours, dict(zip(names, values, strict=True)), (b,))
        logits = ours.logits(states).log_softmax(-1)
        return logits.gather(-1, b.targets[..., None])[b.targets != PAD].sum()

    assert torch.autograd.gradcheck(loss, tuple(named[name] for name in names), fast_mode=True)


def test_the_loss_counts_real_targets_alone() -> None:
    ours = network()
    b = batch(3, 7)
    loss, nll = language_loss(ours, b, LossConfig(label_smoothing=0.0))
    logits = ours.logits(ours(b)).log_softmax(-1)
    expected = -sum(logits[row, t, b.targets[row, t]].item() for row, n in ((0, 3), (1, 7)) for t in range(n))
    assert nll.item() == pytest.approx(expected, rel=1e-4)
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_more_tokens_than_positions_are_refused_in_one_pass_and_step_by_step() -> None:
    ours = network()
    with pytest.raises(UserError, match=r"a text of 13 tokens is longer than model\.max_positions=12"):
        ours(batch(13))
    _, state = ours.read(batch(12).inputs, ours.start(1, torch.device("cpu")))
    with pytest.raises(UserError, match="a text of 13 tokens"):
        ours.step(torch.tensor([7]), state)


def test_one_token_and_only_unknown_ones_are_read() -> None:
    ours = network(kv_heads=2, positions="rotary")
    assert ours(batch(1)).shape == (1, 1, 16)
    unknown = TextBatch(torch.full((1, 5), UNK), torch.full((1, 5), UNK), 5, 0, np.zeros(1, np.int64))
    assert torch.isfinite(language_loss(ours, unknown, LossConfig())[0])


def test_gpt_2s_smallest_model_has_its_number_of_parameters() -> None:
    values = groups.merge_choice("model", "gpt_small")
    with torch.device("meta"):
        assert any_network(model_config(values), 50_257, 50_257).parameter_count() == 124_439_808


def test_tables_are_one_or_two() -> None:
    tied, loose = network(), network(tie=False)
    assert tied.output.weight is tied.embedding.weight
    assert loose.parameter_count() == tied.parameter_count() + 30 * 16


def test_the_table_of_architectures_builds_it() -> None:
    assert isinstance(any_network(DecoderOnlyConfig(**SIZES), 30, 30), DecoderOnly)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"model\.kv_heads=3"):
        network(kv_heads=3)
