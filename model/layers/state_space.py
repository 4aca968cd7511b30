"""A selective state-space layer (Gu and Dao 2023, Mamba), in plain PyTorch.

After a gate's projection and a short causal convolution, every channel e has N states:

    h_t = exp(d_t A) h_{t-1} + d_t B_t x_t,    y_t = C_t' h_t + D x_t

with A < 0 a parameter, and the step d_t, B_t and C_t computed from the input: so the layer chooses what it keeps. The
scan reads chunks of positions; the backward pass computes a chunk's states again, so that memory per position is that
of the inputs, whatever the length. States are at least float32.

Letters: B batch, T positions, D width (and channels), N states of a channel, R rank of the step's projection, W width
of the convolution.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dragoman.model.layers.roles import packed, plain

CHUNK = 32  # positions whose states are in memory at a time
STEPS = (1e-3, 1e-1)  # range of the initial steps d_t, log-uniform


class StateSpace(nn.Module):
    """x (B, T, D) -> (B, T, D): convolution, scan, gate."""

    def __init__(self, width: int, states: int, convolution: int) -> None:
        super().__init__()
        self.states, self.tail = states, convolution - 1
        self.rank = max(1, width // 16)
        self.input = packed(nn.Linear(width, 2 * width), [width] * 2)  # values and gate
        self.convolution = nn.Parameter(torch.empty(width, convolution))
        self.convolution_bias = nn.Parameter(torch.zeros(width))
        parts = [self.rank, states, states]  # the step's factor, B and C
        self.select = packed(nn.Linear(width, sum(parts), bias=False), parts)
        self.step = nn.Linear(self.rank, width)
        self.decay = nn.Parameter(torch.empty(width, states))  # log of -A
        self.skip = nn.Parameter(torch.ones(width))  # D of the equation
        self.out = nn.Linear(width, width)
        plain(self, "convolution", "decay")
        self.initialise()

    def initialise(self) -> None:
        """Sets A = -(1 to N) in every channel and log-uniform steps, as in the paper's section 3.6."""
        nn.init.uniform_(self.convolution, -1.0, 1.0)
        with torch.no_grad():
            self.convolution.div_(math.sqrt(self.tail + 1))
            self.decay.copy_(torch.arange(1, self.states + 1).log().expand_as(self.decay))
            low, high = map(math.log, STEPS)
            steps = torch.empty_like(self.step.bias).uniform_(low, high).exp()
            self.step.bias.copy_(steps + torch.log(-torch.expm1(-steps)))  # the inverse of softplus

    def start(self, rows: int, device: torch.device) -> Tensor:
        """Returns the state (B, D, N + W - 1) before the first position: zeros. Its last W - 1 are past inputs."""
        size = rows, len(self.decay), self.states + self.tail
        return torch.zeros(size, device=device, dtype=self.decay.dtype)

    def forward(self, x: Tensor, state: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) after `state` -> (B, T, D) and the state after the last real position; padding, where `real`
        (B, T) is False, comes last."""
        values, gate = self.input(x).chunk(2, -1)  # (B, T, D)
        with torch.autocast(x.device.type, enabled=False):
            values = values.to(state.dtype)
            states, before = torch.split(state, [self.states, self.tail], -1)
            line = torch.cat([before, values.transpose(1, 2)], 2)  # (B, D, W - 1 + T)
            values = nn.functional.conv1d(line, self.convolution[:, None], self.convolution_bias, groups=len(line[0]))
            values = nn.functional.silu(values).transpose(1, 2)  # (B, T, D)
            after = line[..., line.shape[2] - self.tail :] if real is None else last_of(line, real, self.tail)
            step, b, c = torch.split(self.select(values), [self.rank, self.states, self.states], -1)
            step = nn.functional.softplus(self.step(step))  # (B, T, D)
            if real is not None:
                step = step * real[..., None]  # a step of 0 keeps the state
            y, states = scan(values, step, -self.decay.exp(), b, c, states)
            y = y + self.skip * values
        y = y.to(gate.dtype) * nn.functional.silu(gate)
        return self.out(y), torch.cat([states, after], -1)


def last_of(line: Tensor, real: Tensor, count: int) -> Tensor:
    """line (B, D, count + T) -> (B, D, count): the columns before the end of each row's real (B, T) positions."""
    places = real.sum(1)[:, None] + torch.arange(count, device=line.device)  # (B, count)
    return line.gather(2, places[:, None].expand(-1, line.shape[1], -1))


def scan(x: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """x, step (B, T, D), a (D, N), b, c (B, T, N), state (B, D, N) -> y (B, T, D) and the last state."""
    outputs = []
    for first in range(0, x.shape[1], CHUNK):
        part = [*(tensor[:, first : first + CHUNK] for tensor in (x, step, b, c)), a, state]
        if torch.is_grad_enabled():
            y, state = cast("tuple[Tensor, Tensor]", checkpoint(_part, *part, use_reentrant=False))
        else:
            y, state = _part(*part)
        outputs.append(y)
    return torch.cat(outputs, 1), state


def _part(x: Tensor, step: Tensor, b: Tensor, c: Tensor, a: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Scans one chunk, positions first."""
    steps, moved = step.transpose(0, 1)[..., None], (step * x).transpose(0, 1)[..., None]  # (T, B, D, 1)
    keep = torch.exp(steps * a)  # (T, B, D, N)
    states = cast("Tensor", _Scan.apply(keep, moved * b.transpose(0, 1)[:, :, None], state))  # type: ignore[no-untyped-call]
    y = torch.einsum("tbdn,btn->btd", states, c)
    return y, states[-1]


class _Scan(torch.autograd.Function):
    """h_t = keep_t h_{t-1} + new_t; the gradient is the same scan from the last position to the first."""

    @staticmethod
    def forward(ctx: Any, keep: Tensor, new: Tensor, state: Tensor) -> Tensor:
        states = torch.empty_like(new)
        before = state
        for t in range(len(new)):
            before = torch.addcmul(new[t], keep[t], before, out=states[t])
        ctx.save_for_backward(keep, states, state)
        return states

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keep, states, state = ctx.saved_tensors
        d_new = gradient.clone()
        for t in range(len(keep) - 2, -1, -1):
            d_new[t].addcmul_(keep[t + 1], d_new[t + 1])
        d_keep = torch.cat([d_new[:1] * state, d_new[1:] * states[:-1]])
        return d_keep, d_new, keep[0] * d_new[0]
