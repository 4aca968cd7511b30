"""Recurrent language models against torch's own networks; carried states, cut gradients, tied tables."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.layers.cells import CellName
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.language_network import BEFORE, EVALUATION, language_loss
from dragoman.model.networks.rnnlm import RecurrentLanguage
from dragoman.model.precision import cannot_run
from dragoman.model.settings import LossConfig
from tests.model.layers.test_recurrent import torch_twin
from tests.model.networks.examples import VOCABULARY, language, tokens, window

CELLS: Sequence[CellName] = ("rnn_tanh", "rnn_relu", "lstm", "gru")
text = partial(tokens, length=12)


def network(cell: str = "lstm", **changes: Any) -> RecurrentLanguage:
    made = language("rnnlm cell=lstm", **{"cell": cell, **changes}).double()
    assert isinstance(made, RecurrentLanguage)
    return made


def torch_logits(ours: RecurrentLanguage, ids: Tensor) -> Tensor:
    """(B, T, V) by torch's own embedding, stack of layers and output layer with our weights."""
    x = nn.functional.embedding(ids, ours.embedding.weight) * ours.config.embedding**0.5
    hidden, _ = torch_twin(ours.recurrent)(x)
    return nn.functional.linear(hidden, ours.output.weight, ours.output.bias)


@pytest.mark.parametrize("cell", CELLS)
def test_equals_torch_with_the_same_weights(cell: CellName) -> None:
    ours, tokens = network(cell), text()
    expected = torch_logits(ours, tokens[:, :-1])
    torch.testing.assert_close(ours.logits(ours(window(tokens))), expected)
    loss, nll = language_loss(ours, window(tokens), LossConfig(0.0))
    wanted = nn.functional.cross_entropy(expected.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
    for found in (loss, nll):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=0.0)


def test_lanes_and_evaluation_carry_their_own_states() -> None:
    ours = network().train()
    first, second = text(seed=1), text(seed=2)
    ours(window(first, lane=0))
    ours(window(second, lane=1))
    lanes = {lane: state.clone() for lane, state in ours.carried.items()}
    ours.eval()
    start = ours(window(first, lane=0))
    ours(window(second, lane=1, goes_on=True))
    assert sorted(ours.carried) == [EVALUATION, 0, 1]
    assert all(torch.equal(ours.carried[lane], state) for lane, state in lanes.items())
    ours.train()
    on = ours(window(second, lane=0, goes_on=True))
    assert not torch.allclose(on, ours(window(second, lane=1, goes_on=True)))
    torch.testing.assert_close(ours(window(first)), start)


def test_a_batch_that_does_not_go_on_begins_at_the_beginning() -> None:
    ours = network().train()
    fresh = ours(window(text()))
    ours(window(text(seed=2)))
    torch.testing.assert_close(ours(window(text())), fresh)


def gradients(ours: RecurrentLanguage) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in ours.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("cell", CELLS)
def test_a_window_cuts_the_gradient(cell: CellName) -> None:
    """The second window's gradient is that of a text that begins in the carried states as constants."""
    ours, tokens = network(cell).train(), text(length=10)
    ours(window(tokens[:, :6]))
    assert not ours.carried[0].requires_grad
    carried = ours.carried[0].clone()
    second = window(tokens[:, 5:], goes_on=True)
    ours(second).square().sum().backward()
    cut = gradients(ours)
    ours.zero_grad()
    states, _ = ours.recurrent(ours.embedding(second.inputs) * 2.0, carried)
    states.square().sum().backward()
    for name, gradient in gradients(ours).items():
        torch.testing.assert_close(cut[name], gradient)
    ours.zero_grad()
    ours(window(tokens))[:, 5:].square().sum().backward()
    assert not torch.allclose(gradients(ours)["embedding.weight"], cut["embedding.weight"])


def test_a_text_of_one_token_has_a_loss() -> None:
    loss, _ = language_loss(network(), window(torch.tensor([[BEFORE, BEFORE]])), LossConfig(0.0))
    assert torch.isfinite(loss)


def test_smoothing_and_rough_precision_stay_near() -> None:
    ours = network().float().train()
    if reason := cannot_run(ours, "bf16", torch.device("cpu")):
        pytest.skip(reason)
    one = window(text())
    exact, nll = (value.detach() for value in language_loss(ours, one, LossConfig(0.1)))
    assert float(nll) != float(exact)
    with torch.autocast("cpu", torch.bfloat16):
        rough, _ = language_loss(ours, one, LossConfig(0.1))
        again, _ = language_loss(ours, window(text(), goes_on=True), LossConfig(0.1))
    assert ours.carried[0].dtype == torch.float32
    torch.testing.assert_close(rough.detach(), exact, rtol=0.02, atol=0.0)
    again.backward()
    assert all(torch.isfinite(p.grad).all() for p in ours.parameters() if p.grad is not None)


@pytest.mark.parametrize(("width", "extra"), [(4, 0), (5, 20)])
def test_tied_tables_are_one_and_another_width_has_a_product_between(width: int, extra: int) -> None:
    tied, untied = network(tie=True, width=width), network(tie=False, width=width)
    assert tied.output.weight is tied.embedding.weight
    assert untied.output.weight is not untied.embedding.weight
    assert tied.parameter_count() == untied.parameter_count() - VOCABULARY * width + extra
    assert tied(window(text())).shape == (3, 12, 4)


def test_it_is_a_row_of_the_table_and_of_one_family() -> None:
    values = {"architecture": "rnnlm", "embedding": 4, "width": 4, "cell": "gru"}
    assert isinstance(build_network(model_config(values), 20, 20), RecurrentLanguage)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "model.width=0: must be at least 1"),
        ({"dropout": 1.0}, "model.dropout=1.0"),
        ({"cell": "lsmt"}, "model.cell: 'lsmt' is not known. Did you mean 'lstm'"),
    ],
)
def test_sizes_that_cannot_be_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        network(**changes)
