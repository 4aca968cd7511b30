"""Losses of translations are counted and reported."""

import pytest

from dragoman.model.inference.losses import KINDS, Losses
from dragoman.model.inference.translator import Alternative, Translation


def test_losses_are_told_with_their_text_and_advice(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses()
    losses.add("whole", Translation("x", 0.0, []))
    losses.warn()
    assert not caplog.messages and not losses.record()
    losses.add(None, Translation("", 0.0, []))
    losses.add("long", Translation("x", 0.0, [], truncated=True))
    losses.add("odd", Translation("x", 0.0, [], unknown=3, missing=("犬", "猫")))
    losses.add("odder", Translation("x", 0.0, [], unknown=1, missing=("猫",)))
    losses.add("round", Translation("x x x x", 0.0, [], loops=True))
    losses.add("Bilililil", Translation("x", 0.0, [], loop_broken=True))
    losses.warn(advice="; shorten them")
    assert caplog.messages == [
        "lines that could not be translated and are empty: 1",
        "lines that were cut to the model's positions and lost their end: 1; shorten them",
        "lines that have characters or words that the model's vocabulary has not got: 2 ('猫', '犬'); "
        "they may be missing",
        "lines that have a translation that repeats itself: 1",
        "lines that went round, where the loop was broken: 1",
    ]
    assert losses.record() | {"warnings": []} == {
        **{"failed": 1, "truncated": 1, "unknown": 2, "loops": 1, "loops_broken": 1},
        **{"missing": ["猫", "犬"], "warnings": []},
    }
    assert tuple(losses.counts()) == KINDS


def test_few_of_many_unknown_words_are_shown_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.model.inference.losses.MOST_COUNTED", 7)
    losses = Losses("sentence")
    losses.add("odd", Translation("x", 0.0, unknown=9, missing=tuple("abcdef")))
    losses.add("odd", Translation("x", 0.0, unknown=9, missing=tuple("fghijk")))
    (message,) = losses.messages()
    assert message.startswith("sentences that have") and "('f', 'a', 'b', 'c', 'd', ...)" in message
    assert len(losses.missing) <= 7


def test_a_text_lost_what_its_parts_lost() -> None:
    parts = [
        Translation("a", 0.0, truncated=True, unknown=1, missing=("犬",)),
        Translation("b", 0.0, unknown=2, missing=("猫", "犬"), loops=True, loop_broken=True),
    ]
    whole = Translation.joined("a b", 1.0, [Alternative("a b", 1.0)], parts)
    assert (whole.text, whole.truncated, whole.unknown, whole.missing) == ("a b", True, 3, ("犬", "猫"))
    assert whole.loops and whole.loop_broken and whole.error is None
    failed = Translation.joined("a b", 1.0, [], [*parts, Translation("", 0.0, error="cannot")])
    assert (failed.text, failed.error) == ("", "cannot")
