"""Layers with a state of a fixed size: the parallel form against the equations, step by step, and over windows."""

import pytest
import torch
from torch import Tensor

from dragoman.model.layers.linear_attention import LinearAttention, feature, linear_attention
from dragoman.model.layers.state_space import StateSpace, scan
from dragoman.model.networks.rnnlm import PastAttention

MAKERS = {
    "linear": lambda: LinearAttention(8, 2, 0.0),
    "state space": lambda: StateSpace(8, 4, 3),
    "past": lambda: PastAttention(8, 5, 0.0),
}
Layer = LinearAttention | StateSpace | PastAttention


def layer(kind: str) -> Layer:
    torch.manual_seed(0)
    return MAKERS[kind]().double()


def inputs(rows: int = 2, length: int = 70) -> Tensor:
    return torch.randn(rows, length, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("length", [1, 5, 64, 70])
@pytest.mark.parametrize("chunk", [3, 64])
def test_linear_attention_is_equation_8_by_chunks(length: int, chunk: int) -> None:
    """Against the quadratic form: weights f(q) f(k)' of all earlier positions, divided by their sum."""
    q, k, v = inputs(3, length).view(3, 1, length, 8).unbind(0)
    q, k, v = feature(q)[None], feature(k)[None], v[None]
    weights = (q @ k.transpose(-1, -2)).tril()
    found, _ = linear_attention(q, k, v, torch.zeros(1, 1, 8, 9, dtype=torch.float64), chunk)
    torch.testing.assert_close(found, weights / weights.sum(-1, keepdim=True) @ v)


def test_the_scan_is_the_recurrence() -> None:
    x, c = inputs(length=70), inputs(length=70)[..., :4].flip(1)
    step, b = x.abs(), x[..., 4:]
    a = -torch.arange(1.0, 5.0, dtype=torch.float64).expand(8, 4)
    state = torch.randn(2, 8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    y, last = scan(x, step, a, b, c, state)
    for t in range(70):
        state = torch.exp(step[:, t, :, None] * a) * state + (step * x)[:, t, :, None] * b[:, t, None]
        torch.testing.assert_close(y[:, t], (state * c[:, t, None]).sum(-1))
    torch.testing.assert_close(last, state)


def test_the_first_state_of_a_text_has_no_past_to_attend_to() -> None:
    ours = layer("past")
    assert isinstance(ours, PastAttention)
    x = inputs(length=1)
    y, memory = ours(x, ours.start(2, x.device))
    expected = torch.tanh(torch.nn.functional.linear(x, ours.join.weight[:, 8:], ours.join.bias))
    torch.testing.assert_close(y, expected)
    assert memory[..., -1].tolist() == [[0.0] * 4 + [1.0]] * 2


def test_only_so_many_earlier_states_are_seen() -> None:
    ours, x = layer("past"), inputs(length=12)
    changed = x.clone()
    changed[:, 3] += 1.0
    first, second = (ours(one, ours.start(2, x.device))[0] for one in (x, changed))
    differs = (first - second).abs().amax((0, 2)) > 1e-9
    assert differs.nonzero().flatten().tolist() == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("kind", MAKERS)
def test_half_precision_keeps_a_whole_state(kind: str) -> None:
    ours = layer(kind).float()
    x = inputs(length=9).float()
    with torch.autocast("cpu", torch.bfloat16):
        rough, state = ours(x.bfloat16(), ours.start(2, x.device))
    exact, _ = ours(x, ours.start(2, x.device))
    assert state.dtype == torch.float32
    torch.testing.assert_close(rough.float(), exact, rtol=0.05, atol=0.05)
