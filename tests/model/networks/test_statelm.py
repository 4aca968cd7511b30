"""Language models with a state of a fixed size: it does not grow, and positions are used up where there are any."""

import pytest
import torch

from dragoman.model.errors import UserError
from tests.model.networks.examples import language, tokens


@pytest.mark.parametrize("name", ["statelm_linear", "statelm_selective", "rnnlm_attention"])
def test_the_state_does_not_grow(name: str) -> None:
    ours, ids = language(name), tokens(1)
    sizes = []
    for length in (1, 20):
        _, state = ours.read(ids[:, :length], ours.start(1, ids.device))
        sizes.append(sum(value.numel() for value in state.values()))
    assert sizes[0] == sizes[1]


def test_linear_attention_has_positions_and_says_when_they_are_used_up() -> None:
    ours, ids = language("statelm_linear", max_positions=8), tokens(1)
    assert ours.max_positions == 8
    assert language("statelm_selective").max_positions is None
    _, state = ours.read(ids[:, :8], ours.start(1, torch.device("cpu")))
    with pytest.raises(UserError, match=r"a text of 9 tokens is longer than model\.max_positions=8"):
        ours.step(ids[:, 8], state)
    with pytest.raises(UserError, match=r"model\.width=16: must be even and a multiple of model\.heads=3"):
        language("statelm_linear", heads=3)
