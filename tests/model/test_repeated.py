"""A slow block says what it does; a quick one says nothing."""

import queue

import pytest

from dragoman.model.repeated import said_if_slow


def test_a_block_that_is_not_over_in_time_says_what_it_does() -> None:
    said: queue.Queue[str] = queue.Queue()
    with said_if_slow(said.put, "opening", seconds=0.0):
        assert said.get(timeout=60) == "opening"
    with pytest.raises(ZeroDivisionError), said_if_slow(said.put, "opening", seconds=0.5):
        raise ZeroDivisionError
    with pytest.raises(queue.Empty):
        said.get(timeout=1)
