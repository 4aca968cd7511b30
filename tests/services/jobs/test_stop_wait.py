"""How long Ray waits between SIGTERM and SIGKILL."""

import json
from pathlib import Path

from services.jobs.stop_wait import WAIT_VARIABLE, stop_wait


def test_ray_waits_for_as_long_as_the_run_measured(tmp_path: Path) -> None:
    words = [f"paths.root={tmp_path}", "name=run"]
    assert stop_wait(words, 30.0) == {WAIT_VARIABLE: "30"}
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    (run / "pace.json").write_text(json.dumps({"stop_seconds": 94.2}))
    assert stop_wait(words, 30.0) == {WAIT_VARIABLE: "95"}
    assert stop_wait(words, 120.0) == {WAIT_VARIABLE: "120"}
    assert stop_wait(["nokey=1"], 30.0) == {WAIT_VARIABLE: "30"}
