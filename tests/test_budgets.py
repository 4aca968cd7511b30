"""Each top folder has a budget of lines: a feature enters when its folder has the lines."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_no_folder_is_over_its_budget() -> None:
    """To give a folder more lines, take them from another one in pyproject.toml, in the same commit."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budgets: dict[str, int] = settings["tool"]["dragoman"]["budgets"]
    lines = {
        folder: sum(len(path.read_bytes().splitlines()) for path in (ROOT / folder).rglob("*.py")) for folder in budgets
    }
    over = {folder: f"{lines[folder]} of {budgets[folder]}" for folder in budgets if lines[folder] > budgets[folder]}
    assert not over, f"over their budget: {over}"
