"""Attention against formulas worked by hand, and masks that can never give NaN."""

import math
from dataclasses import replace

import pytest
import torch

from dragoman.model import device
from dragoman.model.layers.attention import (
    CrossAttention,
    SelfAttention,
    attend,
    causal_bias,
    join_heads,
    padding_bias,
    prefix_bias,
    split_heads,
)
from dragoman.model.layers.dropout import Dropout


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


def test_the_look_ahead_mask_hides_the_future() -> None:
    record: list[torch.Tensor] = []
    x = torch.randn(1, 2, 5, 8)
    attend(x, x, x, causal_bias(5, x.device), Dropout(0.0), record)
    assert torch.equal(record[0].triu(1), torch.zeros(1, 2, 5, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("kind", ["matmul", "sdpa"])
def test_combined_masks_that_hide_every_key_give_zeros_and_finite_gradients(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padding before the text under a causal mask: the first query sees no key, the second one key."""
    cpu = device.kernels(torch.device("cpu"))
    monkeypatch.setattr("dragoman.model.layers.attention.kernels", lambda _: replace(cpu, attention=kind))
    torch.manual_seed(0)
    x = torch.randn(3, 1, 2, 3, 8, dtype=dtype, requires_grad=True)
    q, k, v = x.unbind(0)
    padding = padding_bias(torch.tensor([[False, True, True]]))
    assert padding is not None
    out = attend(q, k, v, padding + causal_bias(3, x.device), Dropout(0.0))
    assert torch.equal(out[:, :, 0], torch.zeros_like(out[:, :, 0]))
    torch.testing.assert_close(out[:, :, 1], v[:, :, 1])
    out.float().square().sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()
    assert not x.grad[0, :, :, 0].any(), "no gradient reaches a query without a key"


@pytest.mark.parametrize("keys", [1, 15, 16, 17, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("groups", [4, 2])
def test_short_rows_are_filled_up_unseen(keys: int, dtype: torch.dtype, groups: int) -> None:
    """Against softmax(q k' / sqrt(K)) v in double precision; the last two keys of the first sentence are padding."""
    torch.manual_seed(0)
    q = torch.randn(3, 4, 6, 8, dtype=dtype)
    k, v = torch.randn(2, 3, groups, keys, 8, dtype=dtype)
    real = torch.ones(3, keys, dtype=torch.bool)
    real[0, max(1, keys - 2) :] = False
    record: list[torch.Tensor] = []
    for bias in (padding_bias(real), None):
        out = attend(q, k, v, bias, Dropout(0.0), record)
        wide_k, wide_v = (x.double().repeat_interleave(4 // groups, 1) for x in (k, v))
        scores = q.double() @ wide_k.mT / math.sqrt(8) + (0 if bias is None else bias)
        weights = scores.softmax(-1)
        close = {"rtol": 0.03, "atol": 0.03} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
        torch.testing.assert_close(record.pop(), weights.to(dtype), **close)
        torch.testing.assert_close(out, (weights @ wide_v).to(dtype), **close)
        assert out.shape == (3, 4, 6, 8)


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
    torch.testing.assert_close(ours(x, None, padding_bias(real), record)[0], expected)
    torch.testing.assert_close(record[0], weights)


def test_a_prefix_is_seen_whole_and_what_follows_backwards() -> None:
    """Two prefixes of 2 and 1 real tokens, padded to 2; then three target positions. Worked by hand."""
    bias = prefix_bias(torch.tensor([[True, True], [True, False]]), 3)
    seen = [[[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], [[1, 0, 1, 0, 0], [1, 0, 1, 1, 0], [1, 0, 1, 1, 1]]]
    assert torch.equal(bias[:, 0] == 0, torch.tensor(seen).bool())
    record: list[torch.Tensor] = []
    q, k = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 5, 4)
    attend(q, k, k, bias, Dropout(0.0), record)
    assert torch.equal(record[0][:, 0] > 0, torch.tensor(seen).bool())


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_queries_equal_multi_head_attention_with_repeated_keys_and_values(kv_heads: int) -> None:
    torch.manual_seed(0)
    grouped, plain = SelfAttention(16, 4, 0.0, kv_heads), SelfAttention(16, 4, 0.0)
    rows = torch.arange(16).view(4, 4)
    shared = torch.arange(4 * kv_heads).view(kv_heads, 4).repeat_interleave(4 // kv_heads, 0)  # (4, 4) rows of k or v
    order = torch.cat([rows.flatten(), 16 + shared.flatten(), 16 + 4 * kv_heads + shared.flatten()])
    plain.qkv.weight.data, plain.qkv.bias.data = grouped.qkv.weight.data[order], grouped.qkv.bias.data[order]
    plain.out.load_state_dict(grouped.out.state_dict())
    x = torch.randn(2, 5, 16)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    for bias in (None, padding_bias(real), causal_bias(5, x.device)):
        records: list[list[torch.Tensor]] = [[], []]
        torch.testing.assert_close(grouped(x, None, bias, records[0])[0], plain(x, None, bias, records[1])[0])
        torch.testing.assert_close(records[0][0], records[1][0])


def test_grouped_cross_attention_shares_keys_between_neighbouring_heads() -> None:
    torch.manual_seed(0)
    layer = CrossAttention(16, 4, 0.0, kv_heads=2)
    k, v = layer.memory(torch.randn(2, 5, 16))
    assert k.shape == v.shape == (2, 2, 5, 4)
    x = torch.randn(2, 3, 16)
    record: list[torch.Tensor] = []
    layer(x, (k, v), None, record)
    q = layer.q(x).view(2, 3, 4, 4)
    expected = (q[:, :, 1] @ k[:, 0].transpose(1, 2) / 2).softmax(-1)  # the second head reads the first keys
    torch.testing.assert_close(record[0][:, 1], expected)


@pytest.mark.parametrize("kv_heads", [2, 4])
@pytest.mark.parametrize("mask", ["causal", "padding", "prefix", "none"])
def test_fused_kernels_see_what_the_matrix_products_see(
    kv_heads: int, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a GPU runs, here on the CPU."""
    torch.manual_seed(0)
    keys = 7 if mask == "prefix" else 4
    q, k, v = torch.randn(2, 4, 4, 8), torch.randn(2, kv_heads, keys, 8), torch.randn(2, kv_heads, keys, 8)
    real = torch.tensor([[True, True, True, False], [True, False, False, False]])
    bias = {
        "causal": causal_bias(4, q.device),
        "padding": padding_bias(real),
        "prefix": prefix_bias(real[:, :3], 4),
        "none": None,
    }[mask]
    plain = attend(q, k, v, bias, Dropout(0.0))
    monkeypatch.setitem(device.KERNELS, "cpu", replace(device.KERNELS["cpu"], attention="sdpa"))
    torch.testing.assert_close(attend(q, k, v, bias, Dropout(0.0), causal=mask == "causal"), plain)


@pytest.mark.parametrize("kv_heads", [1, 4])
def test_grouped_attention_gradients_match_finite_differences(kv_heads: int) -> None:
    torch.manual_seed(0)
    q = torch.randn(1, 4, 2, 3, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(1, kv_heads, 3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda *x: attend(*x, None, Dropout(0.0)), (q, k, v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("kind", ["bmm", "sdpa"])
def test_a_row_that_may_see_nothing_gives_zeros(kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 the common -10,000 left the ordinary softmax, in half precision an even spread."""
    cpu = device.kernels(torch.device("cpu"))
    monkeypatch.setattr("dragoman.model.layers.attention.kernels", lambda _: replace(cpu, attention=kind))
    torch.manual_seed(0)
    real = torch.tensor([[True, True, False], [False, False, False]])
    q, k, v = torch.randn(3, 2, 2, 3, 8).to(dtype).requires_grad_().unbind(0)
    out = attend(q, k, v, padding_bias(real), Dropout(0.0))
    assert torch.equal(out[1], torch.zeros_like(out[1]))
    assert out[0].abs().min() > 0
    alone = attend(q[:1], k[:1], v[:1], padding_bias(real[:1]), Dropout(0.0))
    torch.testing.assert_close(out[:1], alone)
    if kind == "bmm":
        record: list[torch.Tensor] = []
        attend(q, k, v, padding_bias(real), Dropout(0.0), record)
        assert torch.equal(record[0][1], torch.zeros_like(record[0][1]))
