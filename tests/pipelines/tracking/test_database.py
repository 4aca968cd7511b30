"""MLflow's database is made whole or not at all."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.pipelines.tracking import server
from dragoman.pipelines.tracking.server import connect
from dragoman.pipelines.tracking.settings import TrackingConfig

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.long
def test_a_process_that_is_killed_while_it_makes_the_database_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "make_database", server.make_database.__wrapped__)  # type: ignore[attr-defined]
    database = tmp_path / "mlflow" / "mlflow.db"
    config = TrackingConfig(uri=f"sqlite:///{database}")
    script = f"from {server.__name__} import TrackingConfig, connect\nconnect({config!r}).search_experiments()"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    while not any(path.stat().st_size for path in tmp_path.rglob("*mlflow.db*")):  # its first tables are there
        assert process.poll() is None
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not database.exists()
    assert [one.name for one in connect(config).search_experiments()] == ["Default"]
    assert database.is_file()
