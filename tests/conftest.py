"""Fixtures that many tests share, and how tests share the machine."""

import json
import os
import random
import string
from pathlib import Path

import pytest

# Before anything imports NumPy or torch: with several workers (pytest-xdist) each takes one core.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"

# Pieces of text that break programs: control and invisible characters, line ends that are none, marks that pile up or
# turn the direction, what looks like markup or code, and letters of many scripts in composed and decomposed form.
NAUGHTY = [
    *"\0\a\b\t\v\f\r\x1b\x1c\x7f\x85\xa0\xad\u061c\u180e\u200b\u200d\u200e\u202e\u2028\u2029\u2066\u2069\u3000\ufe0f\ufeff",
    *(
        "e\u0301",
        "\u0301" * 30,
        "\u1100\u1161\u11a8",
        "각",
        "ﬀ",
        "ß",
        "ı",
        "İ",
        "🏳\u200d🌈",
        "👩🏽\u200d🚒",
        "🇩🇪",
        "𝔘𝔫𝔦",
    ),
    *("<script>alert('&amp;')</script>", "'; DROP TABLE t; --", "%s%n${7*7}{{x}}", "=cmd|'/c calc'!A0", "\\u0000"),
    *("<s>", "</s>", "<pad>", "<unk>", "▁", "⁇", "\ufffd", "\ufffe", "\U0010ffff"),
    *("العربية", "עברית", "日本語", "ไทย", "हिन्दी", "Ελλάδα", "русский", *string.punctuation, *"aZ09 "),
]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
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
    """The folder of real corpora beside the repository; cases that need it skip where it is missing."""
    return real_corpora()


def real_corpora() -> Path:
    root = Path(__file__).resolve().parents[2] / "shared" / "corpora"
    if not root.is_dir():
        pytest.skip("the real corpora (../shared/corpora) are not on this machine")
    return root


@pytest.fixture(scope="session", params=["made", "collected"])
def naughty(request: pytest.FixtureRequest) -> list[str]:
    """Lines that break programs: made here of what is known to, and the Big List of Naughty Strings.

    None has a line feed or a lone surrogate.
    """
    if request.param == "collected":
        path = real_corpora() / "naughty" / "blns.json"
        strings: list[str] = json.loads(path.read_text(encoding="utf-8"))
        return [text.replace("\n", " ") for text in strings]
    rng = random.Random(1)
    lines = ["".join(rng.choices(NAUGHTY, k=rng.randint(1, 12))) for _ in range(300)]
    return ["", " ", "\ufeff", "null", "-1e400", "../" * 20, "x" * 1000, *lines]
