"""The runner takes away what a job's processes have left: temporary folders of workers, folders that stayed empty."""

import json
import os
import subprocess
import sys
from pathlib import Path

from dragoman.model.confinement import VARIABLE


def test_folders_of_workers_and_empty_ones_are_gone_after_a_job(tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    full, empty = home / "runs/full", home / "runs/empty"
    for folder in (full, empty, temporary / "dragoman-job-j1-1-worker", temporary / "dragoman-job-j1-2-other"):
        folder.mkdir(parents=True)
    (full / "run.json").write_text("{}")
    grant = {"roots": [str(home)], "write": [str(full), str(empty)]}
    done = subprocess.run(
        [sys.executable, "-m", "dragoman.services.jobs.runner", str(home), "j1", "1", "doctor", "no_such_key=1"],
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
    assert "no_such_key" in (home / "jobs" / "j1" / "a1.log").read_text()


def test_a_signal_while_a_runner_takes_away_what_is_left_does_not_lose_the_record(tmp_path: Path) -> None:
    script = """
import os, shutil, signal, sys
from dragoman.services.jobs import runner
runner._run = lambda *_: 7
shutil.rmtree = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
sys.exit(runner.main([sys.argv[1], "j1", "1", "doctor"]))
"""
    root, environment = Path(__file__).resolve().parents[3], {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=root, env=environment, check=False)
    assert done.returncode == 7
    assert json.loads((tmp_path / "jobs" / "j1" / "a1.json").read_text())["code"] == 7
