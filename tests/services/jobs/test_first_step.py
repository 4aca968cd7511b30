"""When the first step of a running training began, read from its folder."""

import json
import os
from pathlib import Path

import pytest

from dragoman.services.jobs.service.accounts import first_step


def journal(run: Path, *lines: object, at: float = 1000.0) -> None:
    run.mkdir(exist_ok=True)
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    (run / "steps.jsonl").write_text(text)
    os.utime(run / "steps.jsonl", (at, at))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.services.jobs.service.accounts.time.time", lambda: 1010.0)


def test_the_first_step_began_as_long_ago_as_the_attempt_has_trained(tmp_path: Path) -> None:
    journal(tmp_path, {"step": 1, "seconds": 70.0}, {"step": 2, "seconds": 80.0})
    assert first_step(tmp_path, 900.0, 0.0, 1010.0) == 920.0
    assert first_step(tmp_path, 900.0, 50.0, 1010.0) == 970.0
    # the service's clock is an hour ahead of that of the files
    assert first_step(tmp_path, 4500.0, 0.0, 4610.0) == 4520.0


def test_before_the_first_step_there_is_none(tmp_path: Path) -> None:
    assert first_step(tmp_path / "no", 900.0, 0.0, 1010.0) is None
    journal(tmp_path, {"step": 2, "seconds": 80.0})
    assert first_step(tmp_path, 900.0, 80.0, 1010.0) is None  # cut back to the checkpoint
    assert first_step(tmp_path, 1005.0, 0.0, 1010.0) is None  # written by the attempt before
    journal(tmp_path)
    assert first_step(tmp_path, 900.0, 0.0, 1010.0) is None


@pytest.mark.parametrize("bad", ["{", "[1]", "7", '{"seconds": "x"}', '{"seconds": NaN}', "\x00\xff", ""])
def test_a_damaged_line_is_passed_over(bad: str, tmp_path: Path) -> None:
    journal(tmp_path, {"step": 2, "seconds": 80.0}, bad)
    assert first_step(tmp_path, 900.0, 0.0, 1010.0) == 920.0
    (tmp_path / "steps.jsonl").unlink()
    (tmp_path / "steps.jsonl").mkdir()
    assert first_step(tmp_path, 900.0, 0.0, 1010.0) is None
