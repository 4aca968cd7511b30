"""`make quick`: the tests of what changed, nearest first, and CONTRIBUTING.md's table of rooms."""

import re
from pathlib import Path

import pytest

from tests import changed

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_the_mirror_of_a_changed_file_comes_first_then_who_imports_it() -> None:
    found = changed.tests_of(["model/text/words.py"])
    assert found[0] == "tests/model/text/test_words.py"
    importing = [name for name in found if "dragoman.model.text.words" in (ROOT / name).read_text("utf-8")]
    assert set(importing) <= set(found[: len(importing) + 1])
    assert "tests/test_layers.py" in found


def test_a_changed_test_is_run_though_it_starts_processes_and_others_that_do_are_not() -> None:
    found = changed.tests_of(["tests/test_signals.py", "services/cli.py"])
    assert "tests/test_signals.py" in found
    for name in found[1:]:
        text = (ROOT / name).read_text("utf-8")
        near = name == "tests/services/test_cli.py" or name in changed.ALWAYS
        assert near or not changed.PROCESSES.search(text), name


def test_where_nothing_changed_the_models_tests_run() -> None:
    found = changed.tests_of(["README.md"])
    assert len(found) > 20
    assert all(name.startswith("tests/model/") or name in changed.ALWAYS for name in found)


def test_what_comes_after_the_budget_is_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "begun", changed.begun - 10 * changed.BUDGET)
    monkeypatch.setattr(changed, "skipped", 0)
    with pytest.raises(pytest.skip.Exception, match="make quick"):
        changed.pytest_runtest_setup(None)  # type: ignore[arg-type]
    assert changed.skipped == 1


def test_every_room_has_a_row_and_every_path_of_the_table_exists() -> None:
    rooms = {
        f"{package}/{folder.name}"
        for package in ("model", "pipelines", "services")
        for folder in (ROOT / package).iterdir()
        if (folder / "__init__.py").is_file()
    }
    rows = re.findall(r"^\| `([\w/.]+)`.*?\| `([^`]+)` \|$", CONTRIBUTING, re.MULTILINE)
    assert rooms <= {room.rstrip("/") for room, _ in rows}
    for room, tests in rows:
        assert (ROOT / room).exists(), room
        for path in tests.split():
            assert list(ROOT.glob(path)), path
