"""The masked encoder against torch's layers with the same weights; sentence vectors that padding does not change."""

import numpy as np
import pytest
import torch

from dragoman.model.errors import UserError
from dragoman.model.networks.bert import EncoderOnly, EncoderOnlyConfig
from dragoman.model.networks.language_network import language_loss
from dragoman.model.networks.network import mean_of_real
from dragoman.model.settings import LossConfig
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, MASK, PAD, UNK
from tests.model.networks.examples import torch_layers

SIZES = {"width": 16, "heads": 4, "feed_forward": 24, "layers": 2, "dropout": 0.0, "max_positions": 12}
SWITCHES: list[dict[str, object]] = [
    {},
    {"norm": "pre"},
    {"norm_kind": "rms"},
    {"activation": "swiglu"},
    {"activation": "relu", "tie": False},
    {"positions": "rotary"},
    {"positions": "sinusoidal"},
    {"kv_heads": 1},
    {"norm": "pre", "norm_kind": "rms", "activation": "swiglu", "positions": "rotary", "kv_heads": 2},
]


def network(**changes: object) -> EncoderOnly:
    torch.manual_seed(0)
    return EncoderOnly(EncoderOnlyConfig(**{**SIZES, **changes}), 30).eval()  # type: ignore[arg-type]


def batch(*lengths: int) -> TextBatch:
    """Texts of the given lengths, EOS included, with the second token of each masked."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.full((len(lengths), max(lengths)), PAD)
    targets = inputs.clone()
    for row, length in enumerate(lengths):
        inputs[row, : length - 1] = torch.randint(6, 30, (length - 1,), generator=generator)
        inputs[row, length - 1] = EOS
        targets[row, 1], inputs[row, 1] = inputs[row, 1].item(), MASK
    return TextBatch(inputs, targets, len(lengths), np.arange(len(lengths)))


def test_equals_torchs_layers_and_the_head_worked_by_hand() -> None:
    ours = network()
    theirs = torch_layers(ours, norm_first=False)
    b = batch(7, 4)
    real = b.inputs != PAD
    x = ours.embedding(b.inputs) * 4 + ours.positions.table[:7]
    below = theirs.train()(x, src_key_padding_mask=~real)  # in training: torch's fast path drops padding
    torch.testing.assert_close(ours.encode(b.inputs)[real], below[real], rtol=1e-4, atol=1e-5)
    z = below @ ours.head.weight.T + ours.head.bias
    z = z * 0.5 * (1 + torch.erf(z / 2**0.5))
    z = (z - z.mean(-1, keepdim=True)) / (z.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(ours(b)[real], z[real], rtol=1e-3, atol=1e-4)
    assert ours.logits(ours(b)).shape == (2, 7, 30)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_a_text_alone_equals_the_text_among_longer_ones(switches: dict[str, object]) -> None:
    ours = network(**switches)
    alone, together = batch(4), batch(4, 9)
    torch.testing.assert_close(ours(together)[0, :4], ours(alone)[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.sentence(together.inputs)[0], ours.sentence(alone.inputs)[0], rtol=1e-4, atol=1e-5)


def test_padding_never_gets_weight_and_both_sides_do() -> None:
    maps = network().attention_maps(batch(4, 9))
    assert sorted(maps) == ["encoder.0", "encoder.1"]
    for weights in maps.values():
        assert weights.shape == (2, 4, 9, 9)
        assert not weights[0, :, :, 4:].any()
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 9))
        assert (weights[1] > 0).all()


def test_a_sentence_vector_is_the_mean_of_the_states_of_its_real_tokens() -> None:
    ours = network()
    ids = batch(4, 9).inputs
    states, vectors = ours.encode(ids), ours.sentence(ids)
    expected = [sum(states[0, t, d].item() for t in range(4)) / 4 for d in range(16)]
    assert vectors[0].tolist() == pytest.approx(expected, abs=1e-5)
    assert vectors.dtype == torch.float32
    nothing = mean_of_real(torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool))
    assert torch.equal(nothing, torch.zeros(2, 4))


def test_only_masked_places_are_trained_on() -> None:
    ours = network()
    b = batch(4, 9)
    loss, nll = language_loss(ours, b, LossConfig(label_smoothing=0.0))
    logits = ours.logits(ours(b)).log_softmax(-1)
    expected = -sum(logits[row, 1, b.targets[row, 1]].item() for row in range(2))
    assert nll.item() == pytest.approx(expected, rel=1e-4)
    loss.backward()
    assert all(p.grad is not None for p in ours.parameters())


@pytest.mark.parametrize("switches", [{}, SWITCHES[-1]], ids=str)
def test_gradients_match_finite_differences(switches: dict[str, object]) -> None:
    torch.manual_seed(0)
    sizes = {"width": 4, "heads": 2, "feed_forward": 2, "layers": 1, "dropout": 0.0, "max_positions": 20}
    ours = EncoderOnly(EncoderOnlyConfig(**{**sizes, **switches, "kv_heads": 1}), 30).double()  # type: ignore[arg-type]
    b = batch(4, 2)
    names = ["layers.0.self_attention.qkv.weight", "head.weight"]
    named = dict(ours.named_parameters())

    def loss(*values: torch.Tensor) -> torch.Tensor:
        states = torch.func.functional_call(ours, dict(zip(names, values, strict=True)), (b,))
        logits = ours.logits(states).log_softmax(-1)
        return logits.gather(-1, b.targets[..., None])[b.targets != PAD].sum()

    assert torch.autograd.gradcheck(loss, tuple(named[name] for name in names), fast_mode=True)


def test_too_long_lonely_and_unknown_texts() -> None:
    ours = network()
    with pytest.raises(UserError, match=r"a sequence of 13 tokens is longer than model\.max_positions=12"):
        ours.sentence(torch.full((1, 13), 7))
    for ids in ([[EOS]], [[UNK, UNK, UNK, EOS]], [[PAD, PAD]]):
        assert torch.isfinite(ours.sentence(torch.tensor(ids))).all()
