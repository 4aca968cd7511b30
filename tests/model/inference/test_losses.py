"""What translations lost is counted and told."""

import pytest

from model.inference.losses import Losses
from model.inference.translator import Translation


def test_losses_are_told_with_their_text_and_advice(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses()
    losses.add("whole", Translation("x", 0.0, []))
    losses.warn()
    assert not caplog.messages
    losses.add(None, Translation("", 0.0, []))
    losses.add("long", Translation("x", 0.0, [], truncated=True))
    losses.add("odd", Translation("x", 0.0, [], unknown=3))
    losses.warn(of="en-de test: ", advice="; shorten them")
    assert caplog.messages == [
        "en-de test: 1 lines could not be translated and are empty",
        "en-de test: 1 lines were cut to the model's positions and lost their end; shorten them",
        "en-de test: 1 lines have characters or words that the model's vocabulary has not got; they may be missing",
    ]
