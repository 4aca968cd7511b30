"""Lengths of time as people read them."""

import pytest

from dragoman.model.durations import duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0 s"), (5, "5 s"), (59.6, "1 min 00 s"), (65, "1 min 05 s"), (7300, "2 h 01 min"), (400_000, "4 d 15 h")],
)
def test_a_duration_has_the_units_that_matter(seconds: float, said: str) -> None:
    assert duration(seconds) == said
