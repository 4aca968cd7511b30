"""Fixtures that many tests share, and how tests share the machine."""

import os
from pathlib import Path

import pytest

# Before anything imports NumPy or torch: with several workers (pytest-xdist) each takes one core.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For several workers: tests that start Ray are one group, which comes first, and so is each other file.

    No two Rays are started at once then, and no fixture of a file is made twice.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group").args != ("ray",))  # type: ignore[union-attr]


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora beside the repository; tests that need it skip where it is missing."""
    root = Path(__file__).resolve().parents[2] / "shared" / "corpora"
    if not root.is_dir():
        pytest.skip("the real corpora (../shared/corpora) are not on this machine")
    return root
