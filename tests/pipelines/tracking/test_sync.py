"""`dragoman sync` sends what runs have left in their spools."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.runs.spool import Spool
from dragoman.pipelines.sync import sync
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import connect
from dragoman.pipelines.tracking.settings import TrackingConfig

ROOT = Path(__file__).resolve().parents[3]


def offline_run(tracking: TrackingConfig, runs: Path, name: str) -> TrackedRun:
    run = TrackedRun(replace(tracking, offline=True), runs / name, name)
    run.tags({"kind": name})
    run.metrics(1, {"loss": 1.0})
    return run


def test_all_runs_are_sent_with_their_status_and_links(
    tracking: TrackingConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    offline_run(tracking, runs, "shard").finish()
    time.sleep(0.002)  # the order of their first records
    training = offline_run(tracking, runs, "a-train")
    training.link("shard_run_id", {"kind": "shard"})
    training.finish("FAILED")
    assert sync(tracking, runs) == 0
    client = connect(tracking)
    found = {name: client.get_run(str(Spool(runs / name).mark().run_id)) for name in ("shard", "a-train")}
    assert {name: run.info.status for name, run in found.items()} == {"shard": "FINISHED", "a-train": "FAILED"}
    assert found["a-train"].data.tags["shard_run_id"] == found["shard"].info.run_id
    assert found["shard"].data.tags["used_by.a-train"] == found["a-train"].info.run_id
    assert capsys.readouterr().out.count("all sent") == 2


def test_one_run_by_name(tracking: TrackingConfig, tmp_path: Path) -> None:
    for name in ("one", "two"):
        offline_run(tracking, tmp_path / "runs", name).finish()
    assert sync(tracking, tmp_path / "runs", "two") == 0
    assert Spool(tmp_path / "runs/one").mark().run_id is None
    with pytest.raises(UserError, match=r"'too' is not known\. Did you mean 'two'"):
        sync(tracking, tmp_path / "runs", "too")


def test_a_killed_run_is_settled_and_a_living_one_is_not(tracking: TrackingConfig, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = (
        "import sys, time; from pathlib import Path; from dragoman.model.runs.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1])); spool.open(); spool.append('status', status='RUNNING')\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(runs / "a")], cwd=ROOT, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    client = connect(tracking)

    def status() -> str:
        return str(client.get_run(str(Spool(runs / "a").mark().run_id)).info.status)

    try:
        assert sync(tracking, runs) == 0
        assert status() == "RUNNING"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    assert sync(tracking, runs) == 0
    assert status() == "KILLED"
    assert sync(tracking, runs) == 0
    assert len(list(Spool(runs / "a").records())) == 2, "settled once"


def test_a_server_that_is_away_is_exit_code_1_and_loses_nothing(
    tracking: TrackingConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offline_run(tracking, tmp_path / "runs", "a").finish()
    assert sync(replace(tracking, uri="http://me:geheim@127.0.0.1:9"), tmp_path / "runs") == 1
    message = capsys.readouterr().err
    assert "a: not sent" in message
    assert "geheim" not in message
    assert sync(tracking, tmp_path / "runs") == 0


def test_a_spool_that_another_process_sends_is_left_to_it(tracking: TrackingConfig, tmp_path: Path) -> None:
    offline_run(tracking, tmp_path / "runs", "a").finish()
    with Spool(tmp_path / "runs/a").sending():
        assert sync(tracking, tmp_path / "runs") == 1
