"""Pooling: the states of a text's tokens as one vector.

    mean        the mean over the real tokens (Reimers and Gurevych 2019)
    first       the state of the first token, as a label's own token is read (Devlin et al. 2019)
    attention   sum_t a_t h_t with a = softmax_t(v' tanh(W h_t + b)), over real tokens (Yang et al. 2016, section 2.2)

Letters: B texts, T positions, D width.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.model.layers.attention_scores import attend, attention_weights

PoolingName = Literal["mean", "first", "attention"]


class AttentionPooling(nn.Module):
    """A learned query that every token is scored against."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.query = nn.Parameter(torch.empty(width).uniform_(-1.0, 1.0) * math.sqrt(3.0 / width))

    def weights(self, states: Tensor, real: Tensor) -> Tensor:
        """states (B, T, D), real (B, T) -> (B, T), which sum to one over real tokens."""
        scores = torch.tanh(self.key(states)) @ self.query  # (B, T)
        return attention_weights(scores[:, None], real)[:, 0]

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """states (B, T, D), real (B, T) -> (B, D)."""
        return attend(self.weights(states, real)[:, None], states)[:, 0]
