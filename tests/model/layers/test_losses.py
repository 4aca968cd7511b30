"""The chunked cross-entropy against torch's own, loss and gradients."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from dragoman.model import device
from dragoman.model.layers import losses
from dragoman.model.layers.losses import vocabulary_loss


def problem(
    rows: int, vocabulary: int = 37, width: int = 8, bias: bool = False
) -> tuple[torch.Tensor, torch.Tensor, nn.Linear]:
    """States (rows, width) that need gradients, targets (rows,) and the output layer."""
    torch.manual_seed(rows)
    output = nn.Linear(width, vocabulary, bias=bias)
    return torch.randn(rows, width, requires_grad=True), torch.randint(vocabulary, (rows,)), output


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 21])
def test_chunked_equals_torch(monkeypatch: pytest.MonkeyPatch, rows: int, bias: bool, smoothing: float) -> None:
    monkeypatch.setattr(losses, "CHUNK_ROWS", 8)  # one row, one full chunk, and chunks with a rest
    monkeypatch.setattr(losses, "ROW_STEP", 4)
    states, targets, output = problem(rows, bias=bias)
    loss, nll = vocabulary_loss(states, targets, output, smoothing)
    (3.0 * loss).backward()
    logits = output(reference := states.detach().clone().requires_grad_())
    expected = nn.functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    gradients = torch.autograd.grad(3.0 * expected, [reference, *output.parameters()])
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, nn.functional.cross_entropy(logits, targets, reduction="sum").detach())
    for ours, theirs in zip([states, *output.parameters()], gradients, strict=True):
        torch.testing.assert_close(ours.grad, theirs)


@pytest.mark.parametrize("path", ["chunked", "native", "measured"])
def test_smoothing_leaves_out_tokens_that_no_text_has(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that an imported model lacks have a bias of -10,000: the loss is that of a vocabulary without them."""
    if path == "native":
        monkeypatch.setitem(device.KERNELS, "cpu", replace(device.KERNELS["cpu"], cross_entropy="native"))
    states, targets, output = problem(21, bias=True)
    output.bias.data[30:] = losses.NEVER
    targets %= 30

    def measured(output: nn.Linear) -> tuple[torch.Tensor, ...]:
        with torch.set_grad_enabled(path != "measured"):
            return vocabulary_loss(states, targets, output, 0.1)

    fewer = nn.Linear(8, 30)
    fewer.load_state_dict({name: tensor[:30] for name, tensor in output.state_dict().items()})
    for ours, theirs in zip(measured(output), measured(fewer), strict=True):
        torch.testing.assert_close(ours, theirs)
    if path != "measured":
        expected = torch.autograd.grad(measured(fewer)[0], [states, *fewer.parameters()])
        gradients = torch.autograd.grad(measured(output)[0], [states, *output.parameters()])
        assert not any(gradient[30:].any() for gradient in gradients[1:])
        for ours, theirs in zip([gradients[0], *(rows[:30] for rows in gradients[1:])], expected, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_bf16_is_close_to_fp32() -> None:
    states, targets, output = problem(700, vocabulary=1000, width=64)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = vocabulary_loss(states, targets, output, 0.1)
    expected, _ = vocabulary_loss(states, targets, output, 0.1)
    assert loss.dtype == torch.float32
    assert abs(loss / expected - 1.0) < 1e-3


@pytest.mark.parametrize("rows", [3, 4, 9])
def test_without_gradients_the_loss_is_the_same(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(losses, "MEASURED_ROWS", 4)
    states, targets, output = problem(rows)
    with torch.no_grad():
        loss, nll = vocabulary_loss(states, targets, output, 0.1)
    expected, expected_nll = vocabulary_loss(states, targets, output, 0.1)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(nll, expected_nll)


def test_without_gradients_few_rows_of_logits_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A validation in the middle of a run may not need more memory than its steps."""
    held: list[int] = []
    product = nn.functional.linear

    def counting(part: torch.Tensor, *others: torch.Tensor | None) -> torch.Tensor:
        held.append(len(part))
        return product(part, *others)

    monkeypatch.setattr(nn.functional, "linear", counting)
    states, targets, output = problem(1_000)
    with torch.no_grad():
        vocabulary_loss(states, targets, output, 0.1)
    assert sum(held) == 1_000
    assert max(held) == losses.MEASURED_ROWS < losses.CHUNK_ROWS


def test_a_hopeless_probability_gives_a_finite_loss() -> None:
    output = nn.Linear(1, 2, bias=False)
    output.weight.data = torch.tensor([[500.0], [-500.0]])
    loss, _ = vocabulary_loss(torch.ones(1, 1, requires_grad=True), torch.tensor([1]), output, 0.0)
    assert torch.isfinite(loss)


def test_no_rows_give_zero() -> None:
    states, targets, output = problem(3)
    assert vocabulary_loss(states[:0], targets[:0], output, 0.1)[0].item() == 0.0
