"""Scaled dot-product attention with several heads (Vaswani et al. 2017, section 3.2).

Letters: B batch, T queries, S keys, H query heads, G key and value heads (a divisor of H), D width, K = D / H head
width. With G < H, adjacent query heads share keys and values in groups of H / G: grouped-query attention (Ainslie et
al. 2023), and with G = 1 multi-query attention (Shazeer 2019).

A mask is a *bias*: a float tensor that is added to the scores, 0 where a key may be seen and a large finite negative
number elsewhere. A row that may see no key gets no weights and gives zeros, in every precision, and never NaN.
"""

import math

import torch
from torch import Tensor, nn
from torch.compiler import is_exporting  # a graph for another program takes no branch by what a tensor holds

from dragoman.model.device import kernels
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.positions import rotate
from dragoman.model.layers.products import Product
from dragoman.model.layers.roles import packed

MASKED = -1e4  # far below any score; its exp() is 0 in every type, and float16 can hold it
VECTOR = 16  # floats in a CPU's vector: a softmax over fewer runs number by number, at a tenth of the speed
SHORT_ROW = 64  # on shorter rows a CPU's half-precision softmax runs the remainder of each row number by number too


def padding_bias(real: Tensor) -> Tensor | None:
    """real (B, S), True at real tokens -> (B, 1, 1, S); None on a CPU if there is no padding."""
    if real.device.type == "cpu" and not is_exporting() and bool(real.all()):
        return None
    return torch.zeros(real.shape, device=real.device).masked_fill_(~real, MASKED)[:, None, None, :]


def causal_bias(length: int, device: torch.device, past: int = 0) -> Tensor:
    """Returns (1, 1, T, T): position t sees 0 to t. With P earlier positions (1, 1, T, P + T), all visible."""
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

    `bias` is broadcast to (B, H, T, S). Appends the weights (B, H, T, S) before dropout to `record`, if given.
    `causal` means that the bias is `causal_bias` alone, which fused kernels have built in.
    """
    seeing = None if bias is None or causal else seeing_rows(bias)
    batch, heads, queries, width = q.shape
    groups, keys = k.shape[1:3]
    if bias is not None:
        bias = bias.to(q.dtype)
    if (kernels(q.device).attention == "sdpa" or is_exporting()) and record is None:
        p = dropout.p if dropout.training else 0.0
        if groups < heads:
            k, v = k.repeat_interleave(heads // groups, 1), v.repeat_interleave(heads // groups, 1)
        mask = None if causal else bias
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal)
        return attended if seeing is None else attended * seeing
    scale = 1.0 / math.sqrt(width)
    rows = heads // groups * queries  # the queries that share one key head
    real = keys
    if keys < VECTOR and queries > 1:  # a single row, as in a decoding step, is not worth it
        k, v, bias = _fill(k, v, bias, VECTOR - keys)
        keys = VECTOR
    # one batched product of B x G matrices; it starts from the bias, which therefore costs no extra pass
    q, k, v = (x.reshape(batch * groups, -1, width) for x in (q, k, v))
    if bias is None:
        scores = torch.bmm(q * scale, k.transpose(1, 2))
    else:
        if bias.shape[:2] == (1, 1) and groups == heads:  # the same for all: the product broadcasts it
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
    """bias (.., T, S) -> (.., T, 1): 1 if a query may see a key, else 0; None on a CPU if all may."""
    seeing = bias.amax(-1, keepdim=True) > MASKED / 2
    return None if bias.device.type == "cpu" and not is_exporting() and bool(seeing.all()) else seeing


def _fill(k: Tensor, v: Tensor, bias: Tensor | None, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pads keys and values (B, G, S, K) with `count` zeros, and the bias (.., S) with as many masked places."""
    if bias is None:
        bias = k.new_zeros(1, 1, 1, k.shape[2])
    pad = nn.functional.pad
    return pad(k, (0, 0, 0, count)), pad(v, (0, 0, 0, count)), pad(bias, (0, count), value=-math.inf)


def _softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension; short rows in half precision go through float32."""
    if scores.dtype in (torch.bfloat16, torch.float16) and scores.shape[-1] < SHORT_ROW:
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    return scores.softmax(-1)


class SelfAttention(nn.Module):
    """Every position attends to its own sequence; one product computes queries, keys and values."""

    low_rank_target = "attention"  # its name in train.lora.targets

    def __init__(self, width: int, heads: int, dropout: float, kv_heads: int = 0) -> None:
        """`kv_heads`: key and value heads; 0: as many as query heads."""
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads
        keys = width // heads * self.kv_heads
        self.qkv = packed(Product(width, width + 2 * keys), [width, keys, keys])
        self.out = Product(width, width)
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
        """x (B, T, D) -> (B, T, D), positions after the `past` keys and values (B, G, t, K); also returns those grown
        by T.

        `rotation` (`Positions.rotation`) is for the new positions; past keys were rotated when they were added.
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

    low_rank_target = "attention"  # its name in train.lora.targets

    def __init__(self, width: int, heads: int, dropout: float, kv_heads: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads
        self.q = Product(width, width)
        keys = width // heads * self.kv_heads
        self.kv = packed(Product(width, 2 * keys), [keys, keys])
        self.out = Product(width, width)
        self.dropout = Dropout(dropout)

    def memory(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys and values (B, G, S, K) of the encoder's states (B, S, D); the same for every decoding step."""
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
