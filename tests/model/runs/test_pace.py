"""What a run measures of the time that it needs to stop."""

import json
from pathlib import Path

import pytest

from dragoman.model.runs import pace, paths


def test_a_stop_needs_the_slowest_step_and_checkpoint_twice_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    measured = pace.Pace(tmp_path)
    for now in (1.0, 4.0, 5.0):  # an evaluation made the second step slow
        clock[0] = now
        measured.step()
    measured.checkpoint(10.0)
    measured.checkpoint(2.0)
    values = json.loads((tmp_path / paths.PACE).read_text())
    assert values == {"step_seconds": 3.0, "checkpoint_seconds": 10.0, "stop_seconds": 2 * 13 + pace.SPARE}
