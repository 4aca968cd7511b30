"""Products and tables that compute as CTranslate2 does in int8, and learn through the rounding.

A row r becomes the integers round(127 r / max |r|) with one factor: each row of a weight and of a table, and of a
product's input each position by itself. The gradient passes the rounding as if it were not there: straight-through
(Bengio et al. 2013), as quantisation-aware training has it (Jacob et al. 2018). The layers keep their parameters, so
the weights are those of the plain network, which a bundle holds. Letters: I inputs, O outputs.
"""

from typing import Any

import torch
from torch import Tensor, nn

LARGEST = 127.0
LEAST = 1e-30  # of a row's largest value: a row of zeros has a factor too


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        values = x.float()
        factor = LARGEST / values.abs().amax(-1, keepdim=True).clamp_min(LEAST)
        return (values * factor).round_().div_(factor).to(x.dtype)

    @staticmethod
    def backward(_ctx: Any, grad: Tensor) -> Tensor:
        return grad


def rounded(x: Tensor) -> Tensor:
    """x (..., I) -> (..., I): each row as 8-bit integers times its factor; the gradient is that of x."""
    return _Rounded.apply(x)  # type: ignore[no-any-return, no-untyped-call]  # torch's own


class Int8Linear(nn.Linear):
    """A linear layer whose inputs and weights are rounded."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., I) -> (..., O)."""
        return nn.functional.linear(*factors(self, x), self.bias)


class Int8Embedding(nn.Embedding):
    """A table whose rows are rounded."""

    def forward(self, ids: Tensor) -> Tensor:
        """ids (...) -> (..., D)."""
        return rounded(super().forward(ids))


def factors(layer: nn.Linear, x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the input (..., I) and the weights (O, I) as the layer multiplies them."""
    return (rounded(x), rounded(layer.weight)) if isinstance(layer, Int8Linear) else (x, layer.weight)


def compute_in_int8(network: nn.Module) -> None:
    """Lets every product and table of `network` compute in int8. Tables that are shared stay shared."""
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = Int8Linear
        elif type(module) is nn.Embedding:
            module.__class__ = Int8Embedding
