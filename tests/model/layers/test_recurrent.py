"""Recurrent layers against torch's own RNN, LSTM and GRU with the same weights; padding, directions, gradients."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import rnn

from dragoman.model.device import kernels
from dragoman.model.errors import UserError
from dragoman.model.layers import recurrent
from dragoman.model.layers.cells import CELLS, CellName
from dragoman.model.layers.recurrence import recur
from dragoman.model.layers.recurrent import Direction, Recurrent, reverse_rows

CELL_NAMES: Sequence[CellName] = ("rnn_tanh", "rnn_relu", "lstm", "gru")
DIRECTIONS: Sequence[Direction] = ("forward", "backward", "both")
LENGTHS = torch.tensor([5, 1, 9, 3])
REAL = torch.arange(9) < LENGTHS[:, None]  # (4, 9)
INPUTS, WIDTH, LAYERS = 3, 4, 2


def stack(cell: CellName, direction: Direction = "forward", layers: int = LAYERS) -> Recurrent:
    torch.manual_seed(0)
    made = Recurrent(cell, INPUTS, WIDTH, layers, 0.0, direction).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def torch_twin(ours: Recurrent) -> nn.RNNBase:
    """torch's own module of all layers, with our weights."""
    first, both = ours.layers[0], ours.direction == "both"
    assert isinstance(first, nn.RNNBase)
    sizes = (first.input_size, first.hidden_size, len(ours.layers))
    if ours.cell in ("lstm", "gru"):
        theirs = {"lstm": nn.LSTM, "gru": nn.GRU}[ours.cell](*sizes, batch_first=True, bidirectional=both)
    else:
        theirs = nn.RNN(*sizes, ours.cell.removeprefix("rnn_"), batch_first=True, bidirectional=both)
    theirs.double().load_state_dict(
        {
            name.replace("_l0", f"_l{number}"): weight
            for number, layer in enumerate(ours.layers)
            for name, weight in layer.state_dict().items()
        }
    )
    return theirs


def as_torch(state: Tensor) -> Tensor | tuple[Tensor, ...]:
    """(B, LN, P, W) -> torch's (LN, B, W), or a pair of them."""
    parts = tuple(part.transpose(0, 1).contiguous() for part in state.unbind(2))
    return parts if len(parts) > 1 else parts[0]


def as_ours(state: Tensor | tuple[Tensor, ...]) -> Tensor:
    return torch.stack(state if isinstance(state, tuple) else (state,), 2).transpose(0, 1)


def inputs(ours: Recurrent) -> tuple[Tensor, Tensor]:
    """x (4, 9, I) and a first state."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 9, INPUTS, generator=generator, dtype=torch.float64)
    state = ours.start(4, x.device)
    return x, torch.randn(state.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("cell", CELL_NAMES)
def test_equals_torch_with_the_same_weights_and_packed_where_padded(cell: CellName, direction: Direction) -> None:
    ours = stack(cell, direction)
    x, state = inputs(ours)
    hidden, last = ours(x, state)
    expected, expected_last = torch_twin(ours)(x, as_torch(state))
    torch.testing.assert_close(hidden, expected)
    torch.testing.assert_close(last, as_ours(expected_last))
    hidden, last = ours(x, state, REAL)
    packed = rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    packed, expected_last = torch_twin(ours)(packed, as_torch(state))
    expected, _ = rnn.pad_packed_sequence(packed, batch_first=True)
    torch.testing.assert_close(hidden[REAL], expected[REAL])
    torch.testing.assert_close(last, as_ours(expected_last))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELL_NAMES)
def test_both_ways_around_padding_agree_forwards_and_backwards(
    cell: CellName, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = stack(cell, direction)
    x, state = inputs(ours)
    found = []
    for way in ("held", "packed"):
        table = replace(kernels(x.device), padded_recurrence=way)
        monkeypatch.setattr(recurrent, "kernels", lambda _, table=table: table)
        ours.zero_grad()
        leaf = x.clone().requires_grad_()
        first = state.clone().requires_grad_()
        hidden, last = ours(leaf, first, REAL)
        (hidden[REAL].square().sum() + last.sin().sum()).backward()
        found.append([hidden[REAL], last, leaf.grad, first.grad, *(p.grad for p in ours.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELL_NAMES)
def test_a_sequence_alone_is_the_sequence_in_a_batch(cell: CellName, direction: Direction) -> None:
    ours = stack(cell, direction)
    x, state = inputs(ours)
    hidden, last = ours(x, state, REAL)
    x[~REAL] = 1e3  # whatever stands at padding
    noisy, noisy_last = ours(x, state, REAL)
    assert torch.equal(noisy[REAL], hidden[REAL])
    assert torch.equal(noisy_last, last)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, alone_last = ours(x[row : row + 1, :length], state[row : row + 1])
        torch.testing.assert_close(alone[0], hidden[row, :length])
        torch.testing.assert_close(alone_last[0], last[row])


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_backward_reads_the_real_tokens_from_their_end(cell: CellName) -> None:
    ours = stack(cell, "backward")
    forward = stack(cell, "forward")
    x, state = inputs(ours)
    hidden, last = ours(x, state, REAL)
    expected, expected_last = forward(reverse_rows(x, LENGTHS), state, REAL)
    torch.testing.assert_close(hidden[REAL], reverse_rows(expected, LENGTHS)[REAL])
    torch.testing.assert_close(last, expected_last)


def test_turned_leaves_padding_at_the_end() -> None:
    rows = torch.tensor([[1, 2, 3, 0], [4, 0, 0, 0]])
    assert reverse_rows(rows, torch.tensor([3, 1])).tolist() == [[3, 2, 1, 0], [4, 0, 0, 0]]
    assert reverse_rows(rows[:, :, None], None)[:, :, 0].tolist() == [[0, 3, 2, 1], [0, 0, 0, 4]]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_both_ways_of_a_single_step_agree(direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = stack("lstm", direction)
    x, state = inputs(ours)
    found = []
    for way in ("written", "fused"):
        table = replace(kernels(x.device), lstm_step=way)
        monkeypatch.setattr(recurrent, "kernels", lambda _, table=table: table)
        with torch.no_grad():
            found.append(ours(x[:, :1], state))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("cell", CELL_NAMES)
def test_gradients_match_finite_differences(cell: CellName, backward: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    shape = CELLS[cell]

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64).requires_grad_()

    real = torch.tensor([[True] * 4, [True, False, False, False]])
    values = (draw(2, 4, shape.gates * 3), draw(2, shape.parts, 3), draw(shape.gates * 3, 3), draw(shape.gates * 3))
    assert torch.autograd.gradcheck(lambda *v: recur(cell, *v, real, backward), values)


def test_dropout_stands_between_layers_only() -> None:
    ours = Recurrent("gru", INPUTS, 64, 1, 0.9)
    x = torch.randn(2, 5, INPUTS)
    torch.testing.assert_close(ours(x)[0], ours.eval()(x)[0])
    deep = Recurrent("gru", INPUTS, 64, 2, 0.9)
    assert not torch.equal(deep(x)[0], deep(x)[0])


def test_weights_start_orthogonal_and_forget_gates_open() -> None:
    layer = Recurrent("lstm", INPUTS, 8, 1, 0.0).layers[0]
    assert isinstance(layer, nn.LSTM)
    for gate in layer.weight_hh_l0.split(8):
        torch.testing.assert_close(gate @ gate.t(), torch.eye(8), atol=1e-5, rtol=0.0)
    assert layer.bias_ih_l0.tolist() == [0.0] * 8 + [1.0] * 8 + [0.0] * 16
    assert not layer.bias_hh_l0.any()


def test_an_unknown_cell_is_refused_with_choices() -> None:
    with pytest.raises(UserError, match=r"model\.cell: 'grru' is not known\. Did you mean 'gru'\?"):
        Recurrent("grru", 3, 4, 1, 0.0)  # type: ignore[arg-type]  # on purpose
