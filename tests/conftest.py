"""Fixtures that many tests share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora beside the repository; tests that need it skip where it is missing."""
    root = Path(__file__).resolve().parents[2] / "shared" / "corpora"
    if not root.is_dir():
        pytest.skip("the real corpora (../shared/corpora) are not on this machine")
    return root
