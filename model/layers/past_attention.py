"""Attention of a recurrent network to its own earlier states (Cheng et al. 2016; Daniluk et al. 2017).

Each state h_t attends to the M states before it, and the two are joined as in Luong et al. 2015, equation 5:

    c_t = attention(h_t; h_{t-M} ... h_{t-1}),    h'_t = tanh(W [c_t; h_t])

The first state of a text has nothing to attend to, and gets zeros (model/layers/attention.py).

Letters: B batch, T positions, M earlier states, W width of a state.
"""

import torch
from torch import Tensor, nn

from dragoman.model.layers.attention import MASKED, attend, split_heads
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.roles import packed
from dragoman.model.layers.state_space import last_of


class PastAttention(nn.Module):
    """One head of scaled dot products over the last M states, which are its memory."""

    def __init__(self, width: int, past: int, dropout: float) -> None:
        super().__init__()
        self.past = past
        self.q = nn.Linear(width, width)
        self.kv = packed(nn.Linear(width, 2 * width), [width] * 2)
        self.join = nn.Linear(2 * width, width)
        self.dropout = Dropout(dropout)
        for product in (self.q, self.kv, self.join):
            nn.init.xavier_uniform_(product.weight)
            nn.init.zeros_(product.bias)

    def start(self, rows: int, device: torch.device) -> Tensor:
        """Returns the memory (B, M, W + 1) before the first state: zeros. The last column is 1 where a state is."""
        weight = self.q.weight
        return torch.zeros(rows, self.past, len(weight) + 1, device=device, dtype=weight.dtype)

    def forward(self, hidden: Tensor, memory: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """hidden (B, T, W) after `memory` -> (B, T, W) and the memory after the last real position; padding, where
        `real` (B, T) is False, comes last."""
        length = hidden.shape[1]
        line = torch.cat([memory, nn.functional.pad(hidden.to(memory.dtype), (0, 1), value=1.0)], 1)  # (B, M + T, W+1)
        (q,) = split_heads(self.q(hidden), 1, 1)  # (B, 1, T, W)
        k, v = split_heads(self.kv(line[..., :-1]), 2, 1)  # (B, 1, M + T, W)
        bias = past_bias(line[..., -1] > 0, length)
        seen = attend(q, k, v, bias, self.dropout)[:, 0]  # (B, T, W)
        joined = torch.tanh(self.join(torch.cat([seen, hidden.to(seen.dtype)], -1)))
        if real is None:
            return joined, line[:, length:]
        return joined, last_of(line.transpose(1, 2), real, self.past).transpose(1, 2)


def past_bias(filled: Tensor, length: int) -> Tensor:
    """filled (B, M + T) -> (B, 1, T, M + T): position t, at M + t, sees the filled ones among the M before it."""
    past = filled.shape[1] - length
    band = torch.ones(length, past + length, dtype=torch.bool, device=filled.device)
    seen = band.triu() & band.tril(past - 1) & filled[:, None]  # (B, T, M + T)
    return torch.zeros(seen.shape, device=filled.device).masked_fill_(~seen, MASKED)[:, None]
