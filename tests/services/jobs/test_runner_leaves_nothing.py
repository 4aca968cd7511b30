"""The runner takes away what a job's processes have left: temporary folders of workers, folders that stayed empty."""

import json
import os
import subprocess
import sys
from pathlib import Path

from model.confinement import VARIABLE


def test_folders_of_workers_and_empty_ones_are_gone_after_a_job(tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    full, empty = home / "runs/full", home / "runs/empty"
    for folder in (full, empty, temporary / "dragoman-job-j1-1-worker", temporary / "dragoman-job-j1-2-other"):
        folder.mkdir(parents=True)
    (full / "run.json").write_text("{}")
    grant = {"roots": [str(home)], "write": [str(full), str(empty)]}
    done = subprocess.run(
        [sys.executable, "-m", "services.jobs.runner", str(home), "j1", "1", "doctor", "no_such_key=1"],
        env={
            **os.environ,
            **{VARIABLE: json.dumps(grant), "TMPDIR": str(temporary), "DRAGOMAN_JOB": "j1", "DRAGOMAN_ATTEMPT": "1"},
            **{"DRAGOMAN_HOME": str(home), "HOME": str(tmp_path)},
        },
        **{"cwd": Path(__file__).resolve().parents[3], "check": False, "capture_output": True},
    )
    assert done.returncode == 2, done.stderr
    assert [path.name for path in temporary.iterdir()] == ["dragoman-job-j1-2-other"]
    assert (full.exists(), empty.exists()) == (True, False)
