"""A real MLflow server, killed in the middle of a run and started again."""

import itertools
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from mlflow.exceptions import MlflowException

from dragoman.model.errors import ServiceError, UserError
from dragoman.pipelines.tracking.registry import Registry
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import connect
from dragoman.pipelines.tracking.settings import RegistryConfig, TrackingConfig
from tests.pipelines.tracking.test_promotion import Stage, unasked


class Server:
    """`mlflow server` on a loopback port, over the test's database, in a process group of its own."""

    def __init__(self, database: str, folder: Path, port: int) -> None:
        self.uri = f"http://127.0.0.1:{port}"
        self._command = [
            *(sys.executable, "-m", "mlflow", "server", "--backend-store-uri", database),
            *("--artifacts-destination", str(folder), "--serve-artifacts"),
            *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        ]
        self._log = folder.with_suffix(".log")

    def start(self) -> None:
        binaries = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # it starts uvicorn by name
        environment = {**os.environ, "PATH": binaries, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"}
        environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < until, self._log.read_text()
                time.sleep(0.1)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.mark.long
def test_a_server_killed_and_back_has_every_record_once(
    tracking: TrackingConfig, tmp_path: Path, free_port: int
) -> None:
    server = Server(tracking.uri, tmp_path / "served", free_port)
    config = replace(tracking, uri=server.uri, artifacts=None)
    server.start()
    try:
        run = TrackedRun(config, tmp_path / "runs/a", "a")
        run.params({"seed": 1})
        for step in range(100):
            run.metrics(step, {"loss": float(step)})
        server.wait()
        assert run.flush(30)
        assert run.run_id
        server.kill()
        for step in range(100, 200):
            run.metrics(step, {"loss": float(step)})
        run.text("written while the server was away", "note.txt")
        assert not run.flush(30)
        server.start()
        server.wait()
        for step in range(200, 300):
            run.metrics(step, {"loss": float(step)})
        assert run.finish()
        client = connect(config)
        assert [metric.step for metric in client.get_metric_history(run.run_id, "train/loss")] == list(range(300))
        assert client.get_run(run.run_id).info.status == "FINISHED"
        note = client.download_artifacts(run.run_id, "note.txt", str(tmp_path))
        assert Path(note).read_text() == "written while the server was away"
    finally:
        server.kill()


@pytest.mark.long
def test_a_server_killed_before_any_write_of_a_promotion_keeps_the_champion(
    tracking: TrackingConfig, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two notes of a move, and the move: the same command again does all."""
    server, left, send = Server(tracking.uri, tmp_path / "served", free_port), [10**6], requests.Session.send

    def count(session: requests.Session, request: requests.PreparedRequest, **more: Any) -> requests.Response:
        if request.method != "GET":
            left[0] -= 1
            if left[0] < 0 and server.process.poll() is None:
                server.kill()
        return send(session, request, **more)

    monkeypatch.setattr(requests.Session, "send", count)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    server.start()
    try:
        server.wait()
        here = Stage(two_versions(replace(tracking, uri=server.uri, artifacts=None)), tmp_path / "lock")
        assert here.promote("1", unasked).accepted
        for writes in itertools.count():
            left[0] = writes
            try:
                accepted = here.promote("2").accepted
            except Exception as problem:
                assert isinstance(problem, ServiceError | UserError | MlflowException), type(problem)
                left[0] = 10**6
                server.start()
                server.wait()
                assert here.champion() == "1"
            else:
                break
        left[0] = 10**6
        assert accepted and writes == 3 and here.champion() == "2"
        assert here.rollback().champion == "1" == here.champion()
    finally:
        server.kill()


def two_versions(tracking: TrackingConfig) -> Registry:
    registry = Registry(tracking, RegistryConfig(name="demo-en-de"))
    registry.client.create_registered_model("demo-en-de")
    run = registry.client.create_run(registry.client.create_experiment("demo"))
    for _ in range(2):
        registry.client.create_model_version("demo-en-de", f"{run.info.artifact_uri}/model", run.info.run_id)
    return registry
