"""Positions of tokens in a Transformer: vectors that are added, or rotations of queries and keys.

Letters: B batch, T positions, H heads, D width, K = D / H width of a head.

    sinusoidal  PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same, added (Vaswani et al. 2017,
                section 3.5)
    learned     a row of a table, added (Gehring et al. 2017, section 3.1)
    rotary      nothing is added; every pair (2i, 2i+1) of a query or key of self-attention is rotated by the angle
                p / B^(2i/K), B = `rotary_base`, so that a product depends on the distance of the two (Su et al. 2021,
                equation 34)

What a stack reads is table and positions together: with `embedding_norm` a layer normalisation of their sum follows
(Devlin et al. 2019), and `scale_table` multiplies the table by sqrt(D) before (Vaswani et al. 2017, section 3.4).
"""

import math
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from dragoman.model.layers.roles import table

PositionKind = Literal["sinusoidal", "learned", "rotary"]
LAYER_EPSILON = 1e-5  # torch's, of layer normalisations


class PositionConfig(Protocol):
    """The settings that `Positions` reads."""

    width: int
    heads: int
    max_positions: int
    norm_epsilon: float | None
    scale_table: bool
    embedding_norm: bool
    rotary_base: float

    @property
    def positions(self) -> PositionKind: ...


class Positions(nn.Module):
    """The positions 0 to `max_positions` - 1 of a sequence; all layers share them."""

    table: Tensor  # (max_positions, D); rotary (max_positions, K/2, 2), a cosine and a sine

    def __init__(self, config: PositionConfig) -> None:
        super().__init__()
        self.limit = config.max_positions
        self.scale = math.sqrt(config.width) if config.scale_table else 1.0
        self.norm = embedding_norm(config)
        self.rotary = config.positions == "rotary"
        if config.positions == "learned":
            self.table = nn.Parameter(torch.randn(config.max_positions, config.width) * config.width**-0.5)
            table(self, "table")
        elif self.rotary:
            angles = position_angles(config.max_positions, config.width // config.heads, config.rotary_base)
            self.register_buffer("table", torch.stack([angles.cos(), angles.sin()], -1).float(), persistent=False)
        else:
            self.register_buffer("table", sinusoids(config.max_positions, config.width), persistent=False)

    def add(self, x: Tensor, at: Tensor | None) -> Tensor:
        """x (B, T, D) at the first T positions, or at those of `at` (B, T)."""
        if not self.rotary:
            x = x + (self.table[: x.shape[1]] if at is None else self.table[at])
        return self.norm(x)  # type: ignore[no-any-return]  # modules' calls are untyped

    def rotation(self, length: int, at: Tensor | None = None) -> Tensor | None:
        """Returns e^(i angle) of the first `length` positions, complex (T, K/2), or of `at` (B, T): (B, 1, T, K/2).

        Returns None for positions that do not rotate.
        """
        if not self.rotary:
            return None
        return torch.view_as_complex(self.table[:length] if at is None else self.table[at][:, None])


def embedding_norm(config: PositionConfig) -> nn.Module:
    """Returns the normalisation of a stack's input."""
    if not config.embedding_norm:
        return nn.Identity()
    return nn.LayerNorm(config.width, eps=LAYER_EPSILON if config.norm_epsilon is None else config.norm_epsilon)


def rotate(x: Tensor, rotation: Tensor | None) -> Tensor:
    """x (B, H, T, K), each pair (2i, 2i+1) rotated by its angle: (a + ib) e^(i angle) of a complex number a + ib.

    Computes in float32 or better, since a bfloat16 angle would blur distant positions; the result has x's type. On a
    CPU the complex product is ten times as fast as real sums, which copy every second number.
    """
    if rotation is None:
        return x
    pairs = x.to(torch.promote_types(x.dtype, torch.float32)).view(*x.shape[:-1], -1, 2)
    return torch.view_as_real(torch.view_as_complex(pairs) * rotation).flatten(-2).to(x.dtype)


def sinusoids(length: int, width: int) -> Tensor:
    """Returns (length, width) in float32, computed in float64."""
    angles = position_angles(length, width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()


def position_angles(length: int, width: int, base: float = 10000.0) -> Tensor:
    """Returns (length, width / 2) in float64: p / base^(2i/width)."""
    rate = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(length, dtype=torch.float64)[:, None] * rate
