"""The teachers' probabilities for a batch's targets.

Letters: N target tokens, K tokens per target that the teachers rate.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Distillation:
    """Word-level knowledge distillation (Kim and Rush 2016, section 3.1), cut to the likeliest K tokens.

    The loss mixes the label-smoothed target with the teachers' probabilities, which have the weight `part`.
    """

    tokens: Tensor  # (N, K) int64
    shares: Tensor  # (N, K) float32: the teachers' probabilities; those of a target sum to 1
    part: float  # 0 to 1

    def to(self, device: torch.device) -> Self:
        return type(self)(self.tokens.to(device), self.shares.to(device), self.part)
