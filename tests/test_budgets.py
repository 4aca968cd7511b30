"""Each room of the house has a budget of lines: a feature enters when its room has the lines."""

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lines_of_rooms() -> Counter[str]:
    """Lines of Python by room: `model/text`, or `model` for the files at a package's top."""
    found: Counter[str] = Counter()
    for package in ("model", "pipelines", "services", "conf", "dragoman"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).parent.parts
            found["/".join(parts[:2])] += len(path.read_bytes().splitlines())
    return found


def test_no_room_is_over_its_budget() -> None:
    """To give a room more lines, take them from another one in pyproject.toml, in the same commit."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budgets: dict[str, int] = settings["tool"]["dragoman"]["budgets"]
    found = lines_of_rooms()
    for room in sorted(found):
        print(f"{room:<28} {found[room]:>6} of {budgets.get(room, 0):>6}")
    assert set(found) == set(budgets), f"rooms and budgets differ: {set(found) ^ set(budgets)}"
    over = {room: f"{found[room]} of {budgets[room]}" for room in found if found[room] > budgets[room]}
    assert not over, f"over their budget: {over}"
