"""A product whose weights stay as they are and whose change is learned as a product of two small matrices.

LoRA (Hu et al. 2021, equation 3): with the weights W frozen, A `down` and B `up`,

    y = W x + b + alpha / R * B A x

A is random and B zero at first, so the network begins as it was. `merged` adds B A to W: the plain network that a
bundle holds. Letters: R rank, I inputs, O outputs.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.roles import like

UP, DOWN, SCALE = "up", "down", "scale"


class LowRank(nn.Linear):
    """A linear layer with low-rank factors; shares the parameters of the layer that it replaces."""

    def __init__(self, layer: nn.Linear, rank: int, alpha: float, dropout: float, generator: torch.Generator) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.down = nn.Parameter(torch.empty(rank, layer.in_features))  # (R, I)
        nn.init.normal_(self.down, std=layer.in_features**-0.5, generator=generator)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))  # (O, R)
        like(self, UP, layer)
        # beside the weights, so that whoever has these can merge them
        self.scale = nn.Parameter(torch.tensor(alpha / rank), requires_grad=False)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., I) -> (..., O)."""
        change = nn.functional.linear(nn.functional.linear(self.dropout(x), self.down), self.up)
        return super().forward(x) + self.scale.to(change.dtype) * change


def merged(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the weights of the plain network: W + alpha / R * B A where there are factors, the others as they are.

    The sums are made in float64 and rounded once.
    """
    merged_weights = dict(weights)
    for layer in [name.removesuffix(f".{UP}") for name in weights if f"{name.removesuffix(UP)}{DOWN}" in weights]:
        up, down, scale = (merged_weights.pop(f"{layer}.{name}").double() for name in (UP, DOWN, SCALE))
        weight = merged_weights[f"{layer}.weight"]
        merged_weights[f"{layer}.weight"] = (weight.double() + scale * (up @ down)).to(weight.dtype)
    return merged_weights
