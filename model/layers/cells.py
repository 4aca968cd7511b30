"""The recurrent cells: one step and its gradient for each.

With x the input's part of the gates (with its bias) and s = U h + b the hidden state's, all (B, GW):

    rnn_tanh, rnn_relu   h' = f(x + s)                                                     (Elman 1990)
    gru    r = sig(x_r + s_r), z = sig(x_z + s_z), n = tanh(x_n + r s_n), h' = n + z (h - n)  (Cho et al. 2014)
    lstm   i, f, o = sig(x + s), g = tanh(x + s), c' = f c + i g, h' = o tanh c'           (Gers et al. 2000)

Gate order and the position of the GRU's reset gate (after the product) are torch's, so its weights fit.

Letters: B rows, W width of the state, G gates, P parts of the state (1, or hidden and cell: 2), K kept values.
"""

from typing import Literal, Protocol

import torch
from torch import Tensor

CellName = Literal["rnn_tanh", "rnn_relu", "lstm", "gru"]
Parts = list[Tensor]  # P tensors (B, W), the hidden state first


class Cell(Protocol):
    """One step forward and one backward."""

    gates: int
    parts: int
    kept: int  # values per unit that the gradient needs besides the states
    shared: bool  # True if the gradients of s and x are equal

    def forward(self, x: Tensor, s: Tensor, state: Parts, kept: Tensor, after: Parts) -> None:
        """x, s (B, GW), `state` before -> `after`, written in place, and `kept` (B, KW) for the backward step."""

    def backward(self, d: Parts, state: Parts, after: Parts, kept: Tensor, d_x: Tensor, d_s: Tensor) -> Parts:
        """d: the gradient of `after` -> that of `state`, without the part through s; d_x, d_s (B, GW) in place."""


class Simple:
    """The plain recurrent network."""

    gates, parts, kept, shared = 1, 1, 0, True

    def __init__(self, relu: bool) -> None:
        self.relu = relu

    def forward(self, x: Tensor, s: Tensor, state: Parts, kept: Tensor, after: Parts) -> None:
        torch.add(x, s, out=after[0])
        if self.relu:
            after[0].relu_()
        else:
            after[0].tanh_()

    def backward(self, d: Parts, state: Parts, after: Parts, kept: Tensor, d_x: Tensor, d_s: Tensor) -> Parts:
        if self.relu:
            d_s.copy_(torch.ops.aten.threshold_backward(d[0], after[0], 0.0))
        else:
            d_s.copy_(torch.ops.aten.tanh_backward(d[0], after[0]))
        return [torch.zeros_like(d[0])]


class GRU:
    """The gated recurrent unit. Kept: r, z, n and s_n."""

    gates, parts, kept, shared = 3, 1, 4, False

    def forward(self, x: Tensor, s: Tensor, state: Parts, kept: Tensor, after: Parts) -> None:
        w = state[0].shape[1]
        r, z, n, s_n = torch.split(kept, w, 1)
        torch.add(x[:, : 2 * w], s[:, : 2 * w], out=kept[:, : 2 * w]).sigmoid_()
        s_n.copy_(s[:, 2 * w :])
        torch.addcmul(x[:, 2 * w :], r, s_n, out=n).tanh_()
        torch.lerp(n, state[0], z, out=after[0])

    def backward(self, d: Parts, state: Parts, after: Parts, kept: Tensor, d_x: Tensor, d_s: Tensor) -> Parts:
        w = state[0].shape[1]
        r, z, n, s_n = torch.split(kept, w, 1)
        through = d[0] * z
        d_n = torch.ops.aten.tanh_backward(d[0] - through, n)
        d_s[:, :w] = torch.ops.aten.sigmoid_backward(d_n * s_n, r)
        d_s[:, w : 2 * w] = torch.ops.aten.sigmoid_backward((state[0] - n).mul_(d[0]), z)
        torch.mul(d_n, r, out=d_s[:, 2 * w :])
        d_x[:, : 2 * w] = d_s[:, : 2 * w]
        d_x[:, 2 * w :] = d_n
        return [through]


class LSTM:
    """Long short-term memory. Kept: i, f, g and o."""

    gates, parts, kept, shared = 4, 2, 4, True

    def forward(self, x: Tensor, s: Tensor, state: Parts, kept: Tensor, after: Parts) -> None:
        w = state[0].shape[1]
        i, f, g, o = torch.split(kept, w, 1)
        torch.add(x, s, out=kept)
        kept[:, : 2 * w].sigmoid_()
        g.tanh_()
        o.sigmoid_()
        hidden, cell = after
        torch.mul(f, state[1], out=cell).addcmul_(i, g)
        torch.tanh(cell, out=hidden).mul_(o)

    def backward(self, d: Parts, state: Parts, after: Parts, kept: Tensor, d_x: Tensor, d_s: Tensor) -> Parts:
        w = state[0].shape[1]
        i, f, g, o = torch.split(kept, w, 1)
        tanh_c = after[1].tanh()
        d_c = torch.ops.aten.tanh_backward(d[0] * o, tanh_c).add_(d[1])
        d_s[:, :w] = torch.ops.aten.sigmoid_backward(d_c * g, i)
        d_s[:, w : 2 * w] = torch.ops.aten.sigmoid_backward(d_c * state[1], f)
        d_s[:, 2 * w : 3 * w] = torch.ops.aten.tanh_backward(d_c * i, g)
        d_s[:, 3 * w :] = torch.ops.aten.sigmoid_backward(tanh_c.mul_(d[0]), o)
        return [torch.zeros_like(d_c), d_c.mul_(f)]


CELLS: dict[str, Cell] = {"rnn_tanh": Simple(relu=False), "rnn_relu": Simple(relu=True), "lstm": LSTM(), "gru": GRU()}
