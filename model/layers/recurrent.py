"""Recurrent layers: a stack of RNN, LSTM or GRU cells in one or both directions; padding has no effect.

Letters: B sequences, T positions, I input width, W width of a state, L layers, N directions (1 or 2), P parts of a
state (1; LSTM 2: hidden state and cell).
"""

from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import rnn

from dragoman.model.device import kernels
from dragoman.model.errors import unknown
from dragoman.model.layers.cells import CELLS, CellName
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.recurrence import recur

Direction = Literal["forward", "backward", "both"]


class Recurrent(nn.Module):
    """L layers of one cell; dropout between layers (Zaremba et al. 2014), never between steps.

    `backward` reads each sequence from its last real token to its first, `both` runs the two side by side (Schuster and
    Paliwal 1997). The weights are those of torch's nn.RNN, nn.LSTM or nn.GRU, one module per layer.
    """

    def __init__(
        self, cell: CellName, inputs: int, width: int, layers: int, dropout: float, direction: Direction = "forward"
    ) -> None:
        super().__init__()
        if cell not in CELLS:
            raise unknown("model.cell", cell, CELLS)
        self.cell, self.width, self.direction = cell, width, direction
        self.directions = 2 if direction == "both" else 1
        sizes = [inputs, *[self.directions * width] * (layers - 1)]
        self.layers = nn.ModuleList(fused_layer(cell, size, width, direction == "both") for size in sizes)
        self.dropout = Dropout(dropout)
        self._initialise()

    def _initialise(self) -> None:
        """Glorot for the inputs, orthogonal for each gate's recurrence (Saxe et al. 2014), zero biases.

        The LSTM's forget gates start open, with a bias of 1 (Gers et al. 2000; Jozefowicz et al. 2015).
        """
        for layer in self.layers:
            for name, parameter in layer.named_parameters():
                if name.startswith("bias"):
                    nn.init.zeros_(parameter)
                    if self.cell == "lstm" and name.startswith("bias_ih"):
                        nn.init.ones_(parameter[self.width : 2 * self.width])
                    continue
                for gate in torch.split(parameter, self.width):
                    (nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_)(gate)

    def forward(
        self, x: Tensor, state: Tensor | None = None, real: Tensor | None = None, states: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """x (B, T, I) -> the last layer's hidden states (B, T, NW) and every layer's last state (B, LN, P, W).

        state (B, LN, P, W): before the first step, zeros by default; layers first, directions within. real (B, T): True
        at real tokens, which come first. Padding does not change the state, so the last state is the one after the last
        real token (before the first, when reading backward). Hidden states at padding have no meaning. Without `real`
        every position counts. `states` gets every layer's hidden states.
        """
        if state is None:
            state = self.start(len(x), x.device)
        if real is not None and x.device.type == "cpu" and bool(real.all()):
            real = None
        last = []
        for number, (layer, before) in enumerate(zip(self.layers, state.chunk(len(self.layers), 1), strict=True)):
            if number > 0:
                x = self.dropout(x)
            x, after = self._layer(cast("nn.RNNBase", layer), x, before, real)
            last.append(after)
            if states is not None:
                states.append(x)
        return x, torch.cat(last, 1)

    def start(self, batch: int, device: torch.device) -> Tensor:
        """Returns the initial state (B, LN, P, W): zeros."""
        count = len(self.layers) * self.directions
        dtype = next(self.parameters()).dtype
        return torch.zeros(batch, count, CELLS[self.cell].parts, self.width, dtype=dtype, device=device)

    def _layer(self, layer: nn.RNNBase, x: Tensor, state: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """One layer: x (B, T, I), state (B, N, P, W) -> (B, T, NW), (B, N, P, W)."""
        chosen = kernels(x.device)
        padded = real is not None and chosen.padded_recurrence == "held"
        if padded or (self._is_lstm_step(x) and chosen.lstm_step == "written"):
            return self._recur(layer, x, state, real)
        lengths = None if real is None else real.sum(1).clamp_min(1)  # (B,) a row of only padding reads one
        if self.direction == "backward":
            x = reverse_rows(x, lengths)
        parts = tuple(part.transpose(0, 1).contiguous() for part in state.unbind(2))  # P x (N, B, W)
        first = parts if len(parts) > 1 else parts[0]
        if lengths is None:
            x, last = layer(x, first)
        else:
            packed = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            packed, last = layer(packed, first)
            x, _ = rnn.pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        if self.direction == "backward":
            x = reverse_rows(x, lengths)
        after = torch.stack(last if isinstance(last, tuple) else (last,), 2)  # (N, B, P, W)
        return x, after.transpose(0, 1).to(state.dtype)

    def _is_lstm_step(self, x: Tensor) -> bool:
        """Returns True for an LSTM's single step of decoding or generation."""
        return self.cell == "lstm" and x.shape[1] == 1 and not torch.is_grad_enabled()

    def _recur(self, layer: nn.RNNBase, x: Tensor, state: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """Runs the layer by model/layers/recurrence.py, where a row keeps its state over its padding."""
        hidden, last = [], []
        for number, before in enumerate(state.unbind(1)):
            suffix = "l0_reverse" if number else "l0"
            weight_in, weight, bias_in, bias = (
                cast("Tensor", getattr(layer, f"{kind}_{suffix}"))
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            gates = nn.functional.linear(x, weight_in, bias_in)  # (B, T, GW)
            backward = number == 1 or self.direction == "backward"
            states, after = recur(self.cell, gates, before, weight, bias, real, backward)
            hidden.append(states)
            last.append(after)
        return torch.cat(hidden, 2), torch.stack(last, 1)


def fused_layer(cell: CellName, inputs: int, width: int, both: bool) -> nn.RNNBase:
    """Returns torch's module of one layer, for its weights and, where they fit, its kernels."""
    if cell == "gru":
        return nn.GRU(inputs, width, batch_first=True, bidirectional=both)
    if cell == "lstm":
        return nn.LSTM(inputs, width, batch_first=True, bidirectional=both)
    return nn.RNN(inputs, width, batch_first=True, bidirectional=both, nonlinearity=cell.removeprefix("rnn_"))


def reverse_rows(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x (B, T, ...) with the first lengths[b] positions of each row in reverse order; padding stays at the end."""
    if lengths is None:
        return x.flip(1)
    place = torch.arange(x.shape[1], device=x.device)[None]  # (1, T)
    source = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)  # (B, T)
    return x.gather(1, source.view(*source.shape, *[1] * (x.ndim - 2)).expand_as(x))
