"""Causal attention without softmax: linear in the length, with a state of a fixed size (Katharopoulos et al. 2020).

With f(x) = elu(x) + 1, which is positive, a position's answer is (equations 8 to 12)

    y_t = S_t' f(q_t) / (z_t' f(q_t)),    S_t = S_{t-1} + f(k_t) v_t',    z_t = z_{t-1} + f(k_t)

A column of ones beside the values makes z the last column of S. Training computes the same by chunks: softmax-free
attention inside a chunk, and the sum of all chunks before it. Sums are at least float32.

Letters: B batch, T positions, H heads, D width, K = D / H head width, N chunks of C positions.
"""

import torch
from torch import Tensor, nn

from dragoman.model.layers.attention import join_heads, split_heads
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.roles import packed

CHUNK = 64  # C: memory per position is H C for the scores inside a chunk and H K (K + 1) / C for the sums
SMALLEST = 1e-6  # a divisor's lower bound


class LinearAttention(nn.Module):
    """Every position attends to itself and all earlier ones."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = packed(nn.Linear(width, 3 * width), [width] * 3)
        self.out = nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def start(self, rows: int, device: torch.device) -> Tensor:
        """Returns the state (B, H, K, K + 1) before the first position: zeros."""
        head = self.out.out_features // self.heads
        return torch.zeros(rows, self.heads, head, head + 1, device=device, dtype=self.out.weight.dtype)

    def forward(self, x: Tensor, state: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) after `state` -> (B, T, D) and the state after the last position; padding (`real` (B, T) False)
        does not change it."""
        q, k, v = split_heads(self.qkv(x), 3, self.heads)  # (B, H, T, K)
        with torch.autocast(x.device.type, enabled=False):
            q, k, v = (tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in (q, k, v))
            q, k = feature(q), feature(k)
            if real is not None:
                k = k * real[:, None, :, None]
            y, state = linear_attention(q, k, v, state)
        return self.out(self.dropout(join_heads(y).to(x.dtype))), state


def feature(x: Tensor) -> Tensor:
    """elu(x) + 1, equation 7."""
    return nn.functional.elu(x) + 1.0


def linear_attention(q: Tensor, k: Tensor, v: Tensor, state: Tensor, chunk: int = CHUNK) -> tuple[Tensor, Tensor]:
    """q, k (B, H, T, K), positive, v (B, H, T, K), state (B, H, K, K + 1) -> (B, H, T, K) and the new state."""
    length = q.shape[2]
    chunk = min(chunk, length)
    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)  # (B, H, T, K + 1)
    q, k, v = (_chunks(tensor, chunk) for tensor in (q, k, v))  # (B, H, N, C, K or K + 1)
    sums = torch.cat([state[:, :, None], k.transpose(-1, -2) @ v], 2).cumsum(2)  # (B, H, N + 1, K, K + 1)
    inside = (q @ k.transpose(-1, -2)).tril()  # (B, H, N, C, C)
    result = (inside @ v + q @ sums[:, :, :-1]).flatten(2, 3)[:, :, :length]
    return result[..., :-1] / result[..., -1:].clamp_min(SMALLEST), sums[:, :, -1]


def _chunks(x: Tensor, chunk: int) -> Tensor:
    """(B, H, T, K) -> (B, H, N, C, K); zeros fill the last chunk and add nothing to the sums."""
    padded = nn.functional.pad(x, (0, 0, 0, -x.shape[2] % chunk))
    return padded.view(*x.shape[:2], -1, chunk, x.shape[3])
