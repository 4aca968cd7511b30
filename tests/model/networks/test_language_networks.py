"""Every language model is the same in steps, carried states, padding, order and gradients, and learns."""

import pytest
import torch
from torch import nn

from dragoman.model.networks.language_network import BEFORE, EVALUATION, language_loss
from dragoman.model.settings import LossConfig
from dragoman.model.text.tokenizer import PAD
from tests.model.networks.examples import CARRYING, LANGUAGE, check_gradients, language, smooth, tokens, window

every = pytest.mark.parametrize("name", LANGUAGE)
EXACT = LossConfig(label_smoothing=0.0)


@every
def test_steps_equal_the_whole(name: str) -> None:
    ours, ids = language(name), tokens()
    with torch.no_grad():
        expected = ours.logits(ours(window(ids)))
        state = ours.start(3, ids.device)
        for t in range(20):
            logits, state = ours.step(ids[:, t], state)
            torch.testing.assert_close(logits, expected[:, t], rtol=1e-4, atol=1e-5)
        at_once, end = ours.read(ids[:, :-1], ours.start(3, ids.device))
        torch.testing.assert_close(at_once, expected[:, -1], rtol=1e-4, atol=1e-5)
        for key, value in ours.reorder(end, torch.tensor([2, 0])).items():
            torch.testing.assert_close(value, state[key][[2, 0]], rtol=1e-4, atol=1e-5)
        state = ours.start(3, ids.device)
        for part, last in ((slice(0, 4), 3), (slice(4, 5), 4), (slice(5, 9), 8)):
            logits, state = ours.read(ids[:, part], state)
            torch.testing.assert_close(logits, expected[:, last], rtol=1e-4, atol=1e-5)
        rows = torch.tensor([1, 1, 0])
        logits, _ = ours.step(ids[rows, 9], ours.reorder(state, rows))
        torch.testing.assert_close(logits, expected[rows, 9], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CARRYING)
def test_windows_one_after_the_other_are_the_whole_text(name: str) -> None:
    ours, ids = language(name).train(), tokens()
    with pytest.raises(ValueError, match="3 rows goes on in lane 0, where there are none"):
        ours(window(ids, goes_on=True))
    whole = ours(window(ids))
    end = ours.carried[0]
    found = [ours(window(ids[:, first : first + 8], goes_on=first > 0)) for first in (0, 7)]
    found.append(ours(window(ids[:, 14:], goes_on=True)))
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.carried[0], end, rtol=1e-4, atol=1e-5)
    assert not end.requires_grad
    with pytest.raises(ValueError, match="2 rows goes on in lane 0, where there are states of 3 rows"):
        ours(window(tokens(2), goes_on=True))


@every
def test_padding_changes_neither_loss_nor_states(name: str) -> None:
    ours, ids = language(name), tokens(2, 6)
    ids[1, 3:] = PAD
    with torch.no_grad():
        alone = [row[None, :length] for row, length in zip(ids, (7, 3), strict=True)]
        expected = sum(float(language_loss(ours, window(row), EXACT)[0]) for row in alone)
        _, end = ours.read(ids[1:, :3], ours.start(1, ids.device))
        torch.testing.assert_close(ours(window(ids))[1, :2], ours(window(alone[1]))[0], rtol=1e-4, atol=1e-5)
        for batch in (window(ids), window(ids).padded_to(8)):
            assert float(language_loss(ours, batch, EXACT)[0]) == pytest.approx(expected, rel=1e-5)
            if name in CARRYING:
                (last,) = (value[0] for key, value in end.items() if key != "read")
                torch.testing.assert_close(ours.carried[EVALUATION][1], last, rtol=1e-4, atol=1e-5)


@every
def test_no_position_sees_a_later_one_and_the_loss_counts_real_targets_alone(name: str) -> None:
    ours, ids = language(name), tokens(1, 8)
    with torch.no_grad():
        before = ours(window(ids))
        ids[0, 5] = 6 if ids[0, 5] != 6 else 7
        after = ours(window(ids))
        torch.testing.assert_close(after[:, :5], before[:, :5])
        assert not torch.allclose(after[:, 5:], before[:, 5:])
        ids[0, 6:] = PAD
        logits = ours.logits(ours(window(ids))).log_softmax(-1)
        expected = -sum(logits[0, t, ids[0, t + 1]].item() for t in range(5))
        for found in language_loss(ours, window(ids), EXACT):
            assert found.item() == pytest.approx(expected, rel=1e-4)


@every
def test_gradients_match_finite_differences(name: str) -> None:
    """Also of a window that goes on from carried states."""
    ours = language(name, **smooth(LANGUAGE[name])).double().train()
    first, second = window(tokens(2, 4)), window(tokens(2, 4, seed=3), goes_on=name in CARRYING)
    ours(first)
    start = {lane: state.clone() for lane, state in ours.carried.items()}

    def loss() -> torch.Tensor:
        ours.carried = {lane: state.clone() for lane, state in start.items()}
        logits = ours.logits(ours(second))
        return nn.functional.cross_entropy(logits.flatten(0, 1), second.targets.flatten(), reduction="sum")

    check_gradients(ours, loss)


@pytest.mark.parametrize("name", ["rnnlm cell=lstm", "rnnlm_attention", "statelm_linear", "statelm_selective"])
def test_it_learns_to_repeat(name: str) -> None:
    changes = {"embedding": 8, "width": 16, "layers": 1, "tie": True} if name.startswith("rnnlm ") else {}
    ours = language(name, **changes).train()
    ids = torch.cat([torch.tensor([BEFORE]), torch.arange(6, 12).repeat(4)])[None, :24].repeat(4, 1)
    optimizer = torch.optim.Adam(ours.parameters(), 0.02 if name.startswith("rnnlm ") else 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        loss, _ = language_loss(ours, window(ids), EXACT)
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) / 92 < 0.15
