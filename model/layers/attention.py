"""Scaled dot-product attention with several heads (Vaswani et al. 2017, section 3.2).

Letters: B batch, T queries, S keys, H heads of the queries, G heads of the keys and values (a divisor of H), D width,
K = D / H width of a head. With G < H the heads of the queries share keys and values in groups of H / G neighbours:
grouped-query attention (Ainslie et al. 2023), and with G = 1 multi-query attention (Shazeer 2019).

A mask is a *bias*: a float tensor that is added to the scores, 0 where a key may be seen and a large finite negative
number where not. A row that may see no key has no weights and gives zeros, in every precision, and never NaN.
"""

import math

import torch
from torch import Tensor, nn

from model.device import kernels
from model.layers.dropout import Dropout
from model.layers.positions import rotate

MASKED = -1e4  # far below any score, exp() of it is 0 in every type, and float16 can hold it
VECTOR = 16  # floats that a CPU takes at once: a softmax over fewer goes number by number, at a tenth of the speed
SHORT_ROW = 64  # below it a CPU's softmax in half precision does so too, for what is left over of each row


def padding_bias(real: Tensor) -> Tensor | None:
    """real (B, S), True at real tokens -> (B, 1, 1, S); None on a CPU where nothing is padded (nothing to add)."""
    if real.device.type == "cpu" and bool(real.all()):
        return None
    return torch.zeros(real.shape, device=real.device).masked_fill_(~real, MASKED)[:, None, None, :]


def causal_bias(length: int, device: torch.device, past: int = 0) -> Tensor:
    """(1, 1, T, T): position t sees positions 0 to t. With P positions before them (1, 1, T, P + T), all seen."""
    later = torch.ones(length, past + length, dtype=torch.bool, device=device).triu(1 + past)
    return torch.zeros(later.shape, device=device).masked_fill_(later, MASKED)[None, None]


def prefix_bias(real: Tensor, length: int) -> Tensor:
    """real (B, S) -> (B, 1, T, S + T): target position t sees the real tokens of the prefix and targets 0 to t."""
    earlier = torch.ones(length, length, dtype=torch.bool, device=real.device).tril()
    seen = torch.cat([real[:, None].expand(-1, length, -1), earlier.expand(len(real), -1, -1)], 2)  # (B, T, S + T)
    return torch.zeros(seen.shape, device=real.device).masked_fill_(~seen, MASKED)[:, None]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    dropout: Dropout,
    record: list[Tensor] | None = None,
    causal: bool = False,
) -> Tensor:
    """softmax(q k' / sqrt(K) + bias) v for q (B, H, T, K) and k, v (B, G, S, K) -> (B, H, T, K).

    `bias` is broadcast to (B, H, T, S). With a `record`, the weights (B, H, T, S) before dropout are appended to it.
    `causal` says that the bias is `causal_bias` alone, which fused kernels have built in.
    """
    seeing = None if bias is None or causal else seeing_rows(bias)
    batch, heads, queries, width = q.shape
    groups, keys = k.shape[1:3]
    if bias is not None:
        bias = bias.to(q.dtype)
    if kernels(q.device).attention == "sdpa" and record is None:
        p = dropout.p if dropout.training else 0.0
        if groups < heads:
            k, v = k.repeat_interleave(heads // groups, 1), v.repeat_interleave(heads // groups, 1)
        mask = None if causal else bias
        found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal)
        return found if seeing is None else found * seeing
    scale = 1.0 / math.sqrt(width)
    rows = heads // groups * queries  # the queries that share a head of keys
    real = keys
    if keys < VECTOR and queries > 1:  # a single row, as in a step of decoding, is not worth it
        k, v, bias = _fill(k, v, bias, VECTOR - keys)
        keys = VECTOR
    # one batched product of B x G matrices; the bias is its starting value, so it costs no pass of its own
    q, k, v = (x.reshape(batch * groups, -1, width) for x in (q, k, v))
    if bias is None:
        scores = torch.bmm(q * scale, k.transpose(1, 2))
    else:
        if bias.shape[:2] == (1, 1) and groups == heads:  # the same for all: broadcast within the product
            start = bias[0]
        else:
            start = bias.expand(batch, heads, queries, keys).reshape(batch * groups, rows, keys)
        scores = torch.baddbmm(start, q, k.transpose(1, 2), alpha=scale)  # (BG, T H/G, S)
    weights = _softmax(scores)
    if seeing is not None:
        weights = (weights.view(batch, heads, queries, keys) * seeing).view_as(weights)
    if record is not None:
        record.append(weights.view(batch, heads, queries, keys)[..., :real])
    return torch.bmm(dropout(weights), v).view(batch, heads, queries, width)


def seeing_rows(bias: Tensor) -> Tensor | None:
    """bias (.., T, S) -> (.., T, 1): 1 where a query may see a key, else 0; None on a CPU where all may."""
    seeing = bias.amax(-1, keepdim=True) > MASKED / 2
    return None if bias.device.type == "cpu" and bool(seeing.all()) else seeing


def _fill(k: Tensor, v: Tensor, bias: Tensor | None, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values (B, G, S, K) grown by `count` of zeros, and the bias (.., S) by as many that nothing can see."""
    if bias is None:
        bias = k.new_zeros(1, 1, 1, k.shape[2])
    pad = nn.functional.pad
    return pad(k, (0, 0, 0, count)), pad(v, (0, 0, 0, count)), pad(bias, (0, count), value=-math.inf)


def _softmax(scores: Tensor) -> Tensor:
    """Over the last dimension, by way of float32 where rows in half precision are short."""
    if scores.dtype in (torch.bfloat16, torch.float16) and scores.shape[-1] < SHORT_ROW:
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    return scores.softmax(-1)


class SelfAttention(nn.Module):
    """Every position attends to its own sequence; queries, keys and values are one product."""

    def __init__(self, width: int, heads: int, dropout: float, kv_heads: int = 0) -> None:
        """`kv_heads`: heads of the keys and values; 0: as many as of the queries."""
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads
        self.qkv = nn.Linear(width, width + 2 * (width // heads * self.kv_heads))
        self.out = nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        past: tuple[Tensor, Tensor] | None = None,
        bias: Tensor | None = None,
        record: list[Tensor] | None = None,
        rotation: Tensor | None = None,
        causal: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x (B, T, D) -> (B, T, D), positions after the `past` keys and values (B, G, t, K); those grown by T.

        `rotation` (`Positions.rotation`) is that of the new positions; the keys of the past were turned when they came.
        """
        q, k, v = self.project(x, rotation)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.out(join_heads(attend(q, k, v, bias, self.dropout, record, causal))), (k, v)

    def project(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, D) -> queries (B, H, T, K), keys and values (B, G, T, K)."""
        joint = self.qkv(x)
        if self.kv_heads == self.heads:
            q, k, v = split_heads(joint, 3, self.heads)
        else:
            width = x.shape[-1]
            (q,) = split_heads(joint[..., :width], 1, self.heads)
            k, v = split_heads(joint[..., width:], 2, self.kv_heads)
        return rotate(q, rotation), rotate(k, rotation), v


class CrossAttention(nn.Module):
    """Positions of the target attend to the encoder's states."""

    def __init__(self, width: int, heads: int, dropout: float, kv_heads: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * (width // heads * self.kv_heads))
        self.out = nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def memory(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, G, S, K) of the encoder's states (B, S, D); the same for every step of decoding."""
        k, v = split_heads(self.kv(states), 2, self.kv_heads)
        return k, v

    def forward(
        self, x: Tensor, memory: tuple[Tensor, Tensor], bias: Tensor | None, record: list[Tensor] | None = None
    ) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        (q,) = split_heads(self.q(x), 1, self.heads)
        return self.out(join_heads(attend(q, *memory, bias, self.dropout, record)))  # type: ignore[no-any-return]  # modules' calls are untyped


def split_heads(x: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """(B, T, parts x heads x K) -> `parts` tensors (B, heads, T, K)."""
    batch, length, width = x.shape
    return x.view(batch, length, parts, heads, width // parts // heads).permute(2, 0, 3, 1, 4).unbind(0)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, D)."""
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)
