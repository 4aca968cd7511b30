"""Scaled dot-product attention with several heads (Vaswani et al. 2017, section 3.2).

Letters: B batch, T queries, S keys, H heads, D width, K = D / H width of a head.

A mask is a *bias*: a float tensor that is added to the scores, 0 where a key may be seen and a large finite negative
number where not, so that a row that may see nothing gives an even spread and never NaN.
"""

import math

import torch
from torch import Tensor, nn

from model.device import paths
from model.dropout import Dropout

MASKED = -1e4  # far below any score, exp() of it is 0 in every type, and float16 can hold it


def padding_bias(real: Tensor) -> Tensor | None:
    """real (B, S), True at real tokens -> (B, 1, 1, S); None on a CPU where nothing is padded (nothing to add)."""
    if real.device.type == "cpu" and bool(real.all()):
        return None
    return torch.zeros(real.shape, device=real.device).masked_fill_(~real, MASKED)[:, None, None, :]


def causal_bias(length: int, device: torch.device) -> Tensor:
    """(1, 1, T, T): position t sees positions 0 to t."""
    later = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
    return torch.zeros(length, length, device=device).masked_fill_(later, MASKED)[None, None]


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: Dropout, record: list[Tensor] | None = None
) -> Tensor:
    """softmax(q k' / sqrt(K) + bias) v for q (B, H, T, K) and k, v (B, H, S, K) -> (B, H, T, K).

    `bias` is broadcast to (B, H, T, S). With a `record`, the weights (B, H, T, S) before dropout are appended to it.
    """
    if bias is not None:
        bias = bias.to(q.dtype)
    if paths(q.device).attention == "sdpa" and record is None:
        p = dropout.p if dropout.training else 0.0
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p)
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    scale = 1.0 / math.sqrt(width)
    # one batched product of B x H matrices; the bias is its starting value, so it costs no pass of its own
    q, k, v = (x.reshape(batch * heads, -1, width) for x in (q, k, v))
    if bias is None:
        scores = torch.bmm(q * scale, k.transpose(1, 2))
    else:
        start = bias.expand(batch, heads, queries, keys).reshape(batch * heads, queries, keys)
        scores = torch.baddbmm(start, q, k.transpose(1, 2), alpha=scale)  # (BH, T, S)
    weights = scores.softmax(-1)
    if record is not None:
        record.append(weights.view(batch, heads, queries, keys))
    return torch.bmm(dropout(weights), v).view(batch, heads, queries, width)


class SelfAttention(nn.Module):
    """Every position attends to its own sequence; queries, keys and values are one product."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, bias: Tensor | None, record: list[Tensor] | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        q, k, v = split_heads(self.qkv(x), 3, self.heads)
        return self.out(join_heads(attend(q, k, v, bias, self.dropout, record)))  # type: ignore[no-any-return]

    def step(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One more position x (B, 1, D) after the `past` keys and values (B, H, t, K), which come back grown by one."""
        q, k, v = split_heads(self.qkv(x), 3, self.heads)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.out(join_heads(attend(q, k, v, None, self.dropout))), (k, v)


class CrossAttention(nn.Module):
    """Positions of the target attend to the encoder's states."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def memory(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S, K) of the encoder's states (B, S, D); the same for every step of decoding."""
        k, v = split_heads(self.kv(states), 2, self.heads)
        return k, v

    def forward(
        self, x: Tensor, memory: tuple[Tensor, Tensor], bias: Tensor | None, record: list[Tensor] | None = None
    ) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        (q,) = split_heads(self.q(x), 1, self.heads)
        return self.out(join_heads(attend(q, *memory, bias, self.dropout, record)))  # type: ignore[no-any-return]


def split_heads(x: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """(B, T, parts x D) -> `parts` tensors (B, H, T, K)."""
    batch, length, width = x.shape
    return x.view(batch, length, parts, heads, width // parts // heads).permute(2, 0, 3, 1, 4).unbind(0)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, D)."""
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)
