"""Language models with a state of a fixed size: steps, carried states, positions; and recurrent ones with attention."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.conf import groups
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, model_config
from dragoman.model.networks.language_network import BEFORE, EVALUATION, LanguageNetwork, language_loss
from dragoman.model.settings import LossConfig
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD

SIZES: dict[str, dict[str, Any]] = {
    "statelm_linear": {"width": 16, "heads": 2, "feed_forward": 24, "layers": 2, "dropout": 0.0, "max_positions": 24},
    "statelm_selective": {"width": 16, "feed_forward": 24, "layers": 2, "dropout": 0.0, "states": 4},
    "rnnlm_attention": {"embedding": 8, "width": 12, "layers": 2, "dropout": 0.0, "past": 5},
}
CARRY = ["statelm_selective", "rnnlm_attention"]


def network(name: str, **changes: Any) -> LanguageNetwork:
    torch.manual_seed(0)
    made = any_network(model_config({**groups.merge_choice("model", name), **SIZES[name], **changes}), 30, 30)
    assert isinstance(made, LanguageNetwork)
    return made.eval()


def text(rows: int = 3, length: int = 20) -> Tensor:
    return torch.randint(6, 30, (rows, length + 1), generator=torch.Generator().manual_seed(1))


def batch(tokens: Tensor, goes_on: bool = False) -> TextBatch:
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    return TextBatch(inputs, targets, int((targets != PAD).sum()), 0, np.arange(len(tokens)), 0, goes_on)


@pytest.mark.parametrize("name", SIZES)
def test_steps_equal_the_whole(name: str) -> None:
    ours, tokens = network(name), text()
    expected = ours.logits(ours(batch(tokens)))
    state = ours.start(3, tokens.device)
    for t in range(20):
        logits, state = ours.step(tokens[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], rtol=1e-4, atol=1e-5)
    at_once, end = ours.read(tokens[:, :-1], ours.start(3, tokens.device))
    torch.testing.assert_close(at_once, expected[:, -1], rtol=1e-4, atol=1e-5)
    for key, value in ours.reorder(end, torch.tensor([2, 0])).items():
        torch.testing.assert_close(value, state[key][[2, 0]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SIZES)
def test_the_state_does_not_grow(name: str) -> None:
    ours, tokens = network(name), text(1)
    sizes = []
    for length in (1, 20):
        _, state = ours.read(tokens[:, :length], ours.start(1, tokens.device))
        sizes.append(sum(value.numel() for value in state.values()))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", CARRY)
def test_windows_one_after_the_other_are_the_whole_text(name: str) -> None:
    ours, tokens = network(name).train(), text()
    whole = ours(batch(tokens))
    end = ours.carried[0]
    found = [ours(batch(tokens[:, first : first + 8], first > 0)) for first in (0, 7)]
    found.append(ours(batch(tokens[:, 14:], True)))
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.carried[0], end, rtol=1e-4, atol=1e-5)
    assert not end.requires_grad
    with pytest.raises(ValueError, match="2 rows goes on in lane 0, where there are states of 3 rows"):
        ours(batch(text(2), True))


@pytest.mark.parametrize("name", SIZES)
def test_padding_changes_neither_loss_nor_states(name: str) -> None:
    ours, tokens = network(name), text(2, 6)
    tokens[1, 3:] = PAD
    with torch.no_grad():
        alone = sum(
            float(language_loss(ours, batch(row[None, :length]), LossConfig(0.0))[0])
            for row, length in zip(tokens, (7, 3), strict=True)
        )
        _, end = ours.read(tokens[1:, :3], ours.start(1, tokens.device))
        for one in (batch(tokens), batch(tokens).padded_to(8)):
            assert float(language_loss(ours, one, LossConfig(0.0))[0]) == pytest.approx(alone, rel=1e-5)
            if name in CARRY:
                (last,) = (value for key, value in end.items() if key != "read")
                torch.testing.assert_close(ours.carried[EVALUATION][1], last[0], rtol=1e-4, atol=1e-5)


def test_linear_attention_has_positions_and_says_when_they_are_used_up() -> None:
    ours = network("statelm_linear", max_positions=8)
    assert ours.max_positions == 8
    assert network("statelm_selective").max_positions is None
    _, state = ours.read(text(1)[:, :8], ours.start(1, torch.device("cpu")))
    with pytest.raises(UserError, match=r"a text of 9 tokens is longer than model\.max_positions=8"):
        ours.step(text(1)[:, 8], state)
    with pytest.raises(UserError, match=r"model\.width=16: must be even and a multiple of model\.heads=3"):
        network("statelm_linear", heads=3)


@pytest.mark.parametrize("name", SIZES)
def test_it_learns_to_repeat(name: str) -> None:
    ours = network(name).train()
    tokens = torch.cat([torch.tensor([BEFORE]), torch.arange(6, 12).repeat(4)])[None, :24].repeat(4, 1)
    optimizer = torch.optim.Adam(ours.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        loss, _ = language_loss(ours, batch(tokens), LossConfig(0.0))
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) / 92 < 0.15
