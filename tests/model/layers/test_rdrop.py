"""The paired loss of R-Drop against its definition, loss and gradients."""

import pytest
import torch
from torch import nn

from dragoman.model.layers import rdrop
from dragoman.model.layers.losses import vocabulary_loss
from dragoman.model.layers.rdrop import paired_vocabulary_loss
from tests.model.layers.test_losses import problem


def by_definition(
    states: torch.Tensor, targets: torch.Tensor, output: nn.Linear, smoothing: float, strength: float
) -> torch.Tensor:
    """Half of equation 4 of the paper."""
    first, second = (output(one) for one in states)
    likelihood = sum(
        nn.functional.cross_entropy(one, targets, label_smoothing=smoothing, reduction="sum") for one in (first, second)
    )
    p, q = first.log_softmax(1), second.log_softmax(1)
    there, back = (nn.functional.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((q, p), (p, q)))
    return (likelihood + strength * (there + back) / 2) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 12])
def test_it_is_its_definition(monkeypatch: pytest.MonkeyPatch, rows: int, bias: bool, smoothing: float) -> None:
    monkeypatch.setattr(rdrop, "CHUNK_ROWS", 5)  # one row, one full chunk, and chunks with a rest
    states, targets, output = problem(rows, bias=bias, draws=(2,))
    loss, nll = paired_vocabulary_loss(states, targets, output, smoothing, 3.0)
    (2.0 * loss).backward()
    reference = states.detach().clone().requires_grad_()
    expected = by_definition(reference, targets, output, smoothing, 3.0)
    gradients = torch.autograd.grad(2.0 * expected, [reference, *output.parameters()])
    torch.testing.assert_close(loss, expected)
    plain = [nn.functional.cross_entropy(output(one), targets, reduction="sum") for one in reference]
    torch.testing.assert_close(nll, (sum(plain) / 2).detach())
    for ours, theirs in zip([states, *output.parameters()], gradients, strict=True):
        torch.testing.assert_close(ours.grad, theirs)


def test_without_strength_it_is_the_mean_of_both_losses() -> None:
    states, targets, output = problem(9, draws=(2,))
    loss, nll = paired_vocabulary_loss(states, targets, output, 0.1, 0.0)
    both = [vocabulary_loss(one, targets, output, 0.1) for one in states]
    torch.testing.assert_close(loss, (both[0][0] + both[1][0]) / 2)
    torch.testing.assert_close(nll, (both[0][1] + both[1][1]) / 2)


def test_bf16_is_close_to_fp32() -> None:
    states, targets, output = problem(700, vocabulary=1000, width=64, draws=(2,))
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = paired_vocabulary_loss(states, targets, output, 0.1, 5.0)
    loss.backward()
    rounded = states.grad
    states.grad = None
    expected, _ = paired_vocabulary_loss(states, targets, output, 0.1, 5.0)
    expected.backward()
    assert loss.dtype == torch.float32
    assert abs(loss / expected - 1.0) < 2e-3
    assert rounded is not None and states.grad is not None
    assert torch.nn.functional.cosine_similarity(rounded.flatten(), states.grad.flatten(), 0) > 0.999
