import pytest
import torch

from bench.lengths import kept_bytes, layer_costs
from dragoman.model.layers.attention import SelfAttention
from dragoman.model.layers.recurrent import Recurrent


def test_attention_keeps_the_square_of_the_length() -> None:
    layer = SelfAttention(8, 2, 0.0)
    short, long = (kept_bytes(layer, torch.randn(1, n, 8, requires_grad=True)) for n in (64, 128))
    # per token: the joint projection and the weights' rows
    assert 2.5 < long / short < 4.0
    assert long > 4 * 2 * 128 * 128  # the weights of two heads in float32


def test_a_recurrent_layer_keeps_as_much_a_step() -> None:
    layer = Recurrent("rnn_tanh", 8, 8, 1, 0.0)
    short, long = (kept_bytes(layer, torch.randn(4, n, 8, requires_grad=True)) for n in (50, 100))
    assert long / short == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("label", ["linear attention", "state space"])
def test_a_fixed_state_keeps_as_much_per_token_at_any_length(label: str) -> None:
    """Where softmax attention keeps four times as much per token at four times the length."""
    every = {one.label: one for one in layer_costs(8, [256, 1024], torch.device("cpu"), heads=4)}
    short, long = (kept / n for kept, n in zip(every[label].kept, every[label].lengths, strict=True))
    assert long / short == pytest.approx(1.0, rel=0.05)
    softmax = [kept / n for kept, n in zip(every["self-attention"].kept, [256, 1024], strict=True)]
    assert softmax[1] / softmax[0] > 3.0


def test_every_layer_is_measured_at_every_length() -> None:
    every = layer_costs(8, [8, 4], torch.device("cpu"), heads=4)
    assert all(one.lengths == [4, 8] and min(one.seconds + one.kept) > 0 for one in every)
