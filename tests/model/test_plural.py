"""Counts read well for one thing too."""

import pytest

from dragoman.model.plural import plural


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (1000, "1,000 lines"), (1.5, "1.5 lines")]
)
def test_a_count_and_its_thing_agree(count: float, text: str) -> None:
    assert plural(count, "line") == text
