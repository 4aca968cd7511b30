"""Attention against formulas worked by hand, and masks that can never give NaN."""

import math

import pytest
import torch

from model.attention import CrossAttention, SelfAttention, attend, causal_bias, join_heads, padding_bias, split_heads
from model.dropout import Dropout


def test_attention_equals_the_formula_worked_by_hand() -> None:
    """One head, K = 4 (scale 1/2), scores 2 and 0 before scaling, so weights e/(e+1) and 1/(e+1)."""
    q = torch.tensor([[[[1.0, 1.0, 0.0, 0.0]]]])
    k = torch.tensor([[[[1.0, 1.0, 5.0, 0.0], [0.0, 0.0, 7.0, 1.0]]]])
    v = torch.tensor([[[[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 4.0, 0.0]]]])
    record: list[torch.Tensor] = []
    out = attend(q, k, v, None, Dropout(0.0), record)
    first = math.e / (math.e + 1)
    torch.testing.assert_close(record[0], torch.tensor([[[[first, 1 - first]]]]))
    torch.testing.assert_close(out, torch.tensor([[[[first, 1 - first, 4 - 2 * first, 0.0]]]]))


def test_padding_never_gets_weight() -> None:
    torch.manual_seed(0)
    real = torch.tensor([[True, True, False], [True, False, False]])
    record: list[torch.Tensor] = []
    q, k, v = torch.randn(3, 2, 4, 3, 8).unbind(0)
    attend(q, k, v, padding_bias(real), Dropout(0.0), record)
    assert torch.equal(record[0][0, :, :, 2], torch.zeros(4, 3))
    assert torch.equal(record[0][1, :, :, 1:], torch.zeros(4, 3, 2))
    torch.testing.assert_close(record[0].sum(-1), torch.ones(2, 4, 3))


def test_the_look_ahead_mask_hides_the_future() -> None:
    record: list[torch.Tensor] = []
    x = torch.randn(1, 2, 5, 8)
    attend(x, x, x, causal_bias(5, x.device), Dropout(0.0), record)
    assert torch.equal(record[0].triu(1), torch.zeros(1, 2, 5, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_with_nothing_to_see_is_finite_forward_and_backward(dtype: torch.dtype) -> None:
    x = torch.randn(1, 2, 3, 8, dtype=dtype, requires_grad=True)
    bias = padding_bias(torch.zeros(1, 3, dtype=torch.bool))
    out = attend(x, x, x, bias, Dropout(0.0))
    out.float().sum().backward()
    assert torch.isfinite(out).all()
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_no_bias_where_nothing_is_padded() -> None:
    assert padding_bias(torch.ones(2, 3, dtype=torch.bool)) is None


def test_split_and_join_heads_are_inverse() -> None:
    x = torch.randn(2, 5, 12)
    (heads,) = split_heads(x, 1, 3)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(join_heads(heads), x)


def test_attention_gradients_match_finite_differences() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, 3, dtype=torch.float64, requires_grad=True) for n in (2, 4, 4))
    bias = padding_bias(torch.tensor([[True, True, True, False]]))
    assert torch.autograd.gradcheck(lambda *x: attend(*x, bias, Dropout(0.0)), (q, k, v))


@pytest.mark.parametrize("queries", [1, 4])
def test_stepwise_self_attention_equals_the_masked_whole(queries: int) -> None:
    torch.manual_seed(0)
    layer = SelfAttention(8, 2, 0.0)
    x = torch.randn(3, queries, 8)
    whole = layer(x, causal_bias(queries, x.device))
    past, parts = None, []
    for t in range(queries):
        part, past = layer.step(x[:, t : t + 1], past)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, 1), whole)


def test_self_attention_equals_torch_multihead_attention() -> None:
    torch.manual_seed(0)
    ours = SelfAttention(16, 4, 0.0)
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = ours.qkv.weight.data, ours.qkv.bias.data
    theirs.out_proj.weight.data, theirs.out_proj.bias.data = ours.out.weight.data, ours.out.bias.data
    x = torch.randn(2, 5, 16)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    record: list[torch.Tensor] = []
    expected, weights = theirs(x, x, x, key_padding_mask=~real, average_attn_weights=False)
    torch.testing.assert_close(ours(x, padding_bias(real), record), expected)
    torch.testing.assert_close(record[0], weights)


def test_cross_attention_equals_torch_multihead_attention() -> None:
    torch.manual_seed(0)
    ours = CrossAttention(16, 4, 0.0)
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    theirs.in_proj_weight.data = torch.cat([ours.q.weight.data, ours.kv.weight.data])
    theirs.in_proj_bias.data = torch.cat([ours.q.bias.data, ours.kv.bias.data])
    theirs.out_proj.weight.data, theirs.out_proj.bias.data = ours.out.weight.data, ours.out.bias.data
    x, states = torch.randn(2, 3, 16), torch.randn(2, 5, 16)
    expected, _ = theirs(x, states, states)
    torch.testing.assert_close(ours(x, ours.memory(states), None), expected)
