"""Dropout with a mask that costs one random byte per element.

`nn.Dropout` on a CPU draws a float from the Mersenne twister for each element, which is a large part of a step. Here
one draw of 64 bits gives eight masks. The keep probability is rounded to 1/256 and the scale follows the rounded
probability, so the expectation is exact up to the scale's own rounding: 1 in float32 to seven digits. In bfloat16, with
eight bits, it is up to 0.4 % off (0.9966 with p = 0.1), as for any dropout that multiplies in bfloat16.
"""

import torch
from torch import Tensor, nn

from dragoman.model.device import kernels

INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by size in bytes


class Dropout(nn.Module):
    """Zeroes elements with probability `p` in training and scales the rest by 1 / (1 - p) (Srivastava et al. 2014)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if kernels(x.device).dropout == "native":
            return nn.functional.dropout(x, self.p)
        return x * byte_mask(x, self.p)

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + dropout(x), without a temporary tensor. Both (...), the result in the residual's type."""
        if not self.training or self.p == 0.0:
            return residual + x
        if kernels(x.device).dropout == "native":
            return residual + nn.functional.dropout(x, self.p)
        return torch.addcmul(residual, x.to(residual.dtype), byte_mask(residual, self.p))


def byte_mask(like: Tensor, p: float) -> Tensor:
    """Returns zeros and 1 / keep in the shape and type of `like`, keep = round(256 (1 - p)) / 256."""
    keep = round(256 * (1.0 - p))
    if keep == 0:
        return torch.zeros_like(like)
    words = torch.empty((like.numel() + 7) // 8, dtype=torch.int64, device=like.device)
    # the whole range of int64, so that each of the eight bytes is uniform
    words.random_(-(2**63), None)
    # A CPU compares and converts booleans element by element, but integers of the result's width by vectors: values
    # below `keep` become all ones, and a mask leaves the bits of 1 / keep.
    integer = INTEGERS[like.element_size()]
    scale = int(torch.tensor(256 / keep, dtype=like.dtype).view(integer))
    below = words.view(torch.uint8)[: like.numel()].to(integer).sub_(keep)
    return below.bitwise_right_shift_(8).bitwise_and_(scale).view(like.dtype).view(like.shape)
