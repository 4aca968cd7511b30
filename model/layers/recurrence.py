"""A recurrent layer over a whole sequence, with explicit back-propagation through time (Werbos 1990).

Gives the same states as torch's nn.RNN, nn.LSTM and nn.GRU with the same weights, and is faster where no library fuses
them: a step is one product and a few passes in place, the weights' gradient is one product over all steps, and a
padded position keeps the state, so that nothing is packed. model/device.py chooses.

Letters: B sequences, T positions, W width of the state, G gates, P parts of the state (1, or hidden and cell: 2).
"""

from typing import Any, cast

import torch
from torch import Tensor

from dragoman.model.layers.cells import CELLS, Cell, Parts


def recur(
    cell: str,
    gates: Tensor,
    state: Tensor,
    weight: Tensor,
    bias: Tensor,
    real: Tensor | None = None,
    backward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Runs all steps of one layer in one direction.

    gates (B, T, GW): the input's part, with its bias. state (B, P, W): before the first step. weight (GW, W) and bias
    (GW,) act on the hidden state. real (B, T): where it is False a row keeps its state. `backward` reads from the last
    position to the first. Returns the hidden states (B, T, W), each at its position, and the state (B, P, W) after the
    last step. Products run in the type of `gates`, everything else in that of `state`.
    """
    with torch.autocast(gates.device.type, enabled=False):
        if torch.is_grad_enabled():
            result = _Recur.apply(cell, gates, state, weight, bias, real, backward)  # type: ignore[no-untyped-call]
            return cast("tuple[Tensor, Tensor]", result)
        run = _Run(CELLS[cell], gates, state, real, backward)
        return run.forward(gates, weight, bias)


class _Recur(torch.autograd.Function):
    """The first-order gradient of `recur`."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: str,
        gates: Tensor,
        state: Tensor,
        weight: Tensor,
        bias: Tensor,
        real: Tensor | None,
        backward: bool,
    ) -> tuple[Tensor, Tensor]:
        run = _Run(CELLS[cell], gates, state, real, backward)
        hidden, last = run.forward(gates, weight, bias, keep=True)
        ctx.save_for_backward(state, weight, *run.after, run.before, run.kept)
        ctx.run = run
        run.after, run.before, run.kept = [], Tensor(), Tensor()  # autograd keeps and frees them
        return hidden, last

    @staticmethod
    def backward(ctx: Any, d_hidden: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        run: _Run = ctx.run
        run.state, weight, *run.after, run.before, run.kept = ctx.saved_tensors
        d_gates, d_shares, d_state = run.backward(d_hidden, d_last, weight)
        d_weight = torch.mm(d_shares.flatten(0, 1).t(), run.before.flatten(0, 1)).to(weight.dtype)
        d_bias = d_shares.sum((0, 1), dtype=weight.dtype)
        return None, d_gates, d_state, d_weight, d_bias, None, None


class _Run:
    """One forward run and, from the kept values, one backward run."""

    def __init__(self, cell: Cell, gates: Tensor, state: Tensor, real: Tensor | None, backward: bool) -> None:
        batch, length, _ = gates.shape
        self.cell, self.state, self.real = cell, state, real
        self.dtype = gates.dtype  # type of the products
        self.order = list(range(length - 1, -1, -1) if backward else range(length))
        self.whole: list[bool] = [True] * length if real is None else real.all(0).tolist()
        self.after = [state.new_empty(batch, length, state.shape[2]) for _ in range(cell.parts)]  # P x (B, T, W)
        self.before = self.kept = Tensor()

    def forward(self, gates: Tensor, weight: Tensor, bias: Tensor, keep: bool = False) -> tuple[Tensor, Tensor]:
        """-> (hidden states (B, T, W), last state (B, P, W)); `keep`: store the values that `backward` needs."""
        batch, length, width = self.after[0].shape
        spaces = length if keep else 1
        self.before = gates.new_empty(batch, spaces, width)  # the hidden state that a step starts from
        self.kept = self.state.new_empty(batch, spaces, self.cell.kept * width)
        x = gates.to(self.state.dtype)
        w, b = weight.to(self.dtype).t(), bias.to(self.dtype)
        state: Parts = list(self.state.unbind(1))
        for t in self.order:
            space = t if keep else 0
            after = [part[:, t] for part in self.after]
            before = self.before[:, space].copy_(state[0])
            self.cell.forward(x[:, t], torch.addmm(b, before, w), state, self.kept[:, space], after)
            if not self.whole[t]:
                holds = ~cast("Tensor", self.real)[:, t, None]  # (B, 1)
                for new, old in zip(after, state, strict=True):
                    torch.where(holds, old, new, out=new)
            state = after
        return self.after[0], torch.stack(state, 1)

    def backward(self, d_hidden: Tensor, d_last: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """-> the gradients of the input's part and of the hidden state's (B, T, GW), and of the first state."""
        batch, length, width = d_hidden.shape
        d_shares = self.before.new_empty(batch, length, self.cell.gates * width)
        d_gates = d_shares if self.cell.shared else torch.empty_like(d_shares)
        w = weight.to(self.dtype)
        d: Parts = list(d_last.unbind(1))
        for i in reversed(range(length)):
            t = self.order[i]
            state = list(self.state.unbind(1)) if i == 0 else [part[:, self.order[i - 1]] for part in self.after]
            d[0] = d[0] + d_hidden[:, t]
            held: Parts = []
            if not self.whole[t]:
                moves = cast("Tensor", self.real)[:, t, None]  # (B, 1)
                held = [part.masked_fill(moves, 0.0) for part in d]
                d = [part.masked_fill(~moves, 0.0) for part in d]
            after = [part[:, t] for part in self.after]
            d = self.cell.backward(d, state, after, self.kept[:, t], d_gates[:, t], d_shares[:, t])
            d[0].add_(torch.mm(d_shares[:, t], w))
            if held:
                d = [part.add_(more) for part, more in zip(d, held, strict=True)]
        return d_gates, d_shares, torch.stack(d, 1)
