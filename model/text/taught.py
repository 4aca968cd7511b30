"""What teachers hold likely in the place of a batch's targets.

Letters: N target tokens, K tokens that the teachers of each named.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Taught:
    """Knowledge distillation word by word (Kim and Rush 2016, section 3.1), cut to the likeliest K.

    In the place of a target alone is learned the target, label-smoothed, and as `part` of the whole what teachers hold
    likely there.
    """

    tokens: Tensor  # (N, K) int64
    shares: Tensor  # (N, K) float32: their probabilities; those of a target sum to 1
    part: float  # 0 to 1

    def to(self, device: torch.device) -> Self:
        """The same on `device`."""
        return type(self)(self.tokens.to(device), self.shares.to(device), self.part)
