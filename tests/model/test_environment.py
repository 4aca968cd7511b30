"""Environment variables that a library sets on its way."""

import os

import pytest

from dragoman.model.environment import restore_environment


def test_what_was_set_is_undone_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_A", "before")
    monkeypatch.delenv("DRAGOMAN_B", raising=False)
    with pytest.raises(ValueError, match="stop"), restore_environment("DRAGOMAN_A", "DRAGOMAN_B"):
        os.environ |= {"DRAGOMAN_A": "after", "DRAGOMAN_B": "after"}
        raise ValueError("stop")
    assert (os.environ["DRAGOMAN_A"], "DRAGOMAN_B" in os.environ) == ("before", False)
