"""Health on /status and at the top of every page: the strip says what is not well."""

import shutil
from collections import namedtuple

import pytest

from dragoman.services.jobs.service import health
from dragoman.services.jobs.service.health import Health
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import client
from tests.services.jobs.processes import bring

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
Usage = namedtuple("Usage", "total used free")  # as shutil's


def test_status_and_pages_say_the_same(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH", 0.0)
    states = {"mlflow": "ready", "endpoint": "stopped"}
    with client(loop, children=lambda: states) as http:
        well = http.get("/status").json()
        assert well["trouble"] == {"the endpoint": "stands still: its process is stopped, and goes on after kill -CONT"}
        states["endpoint"] = "starting"
        well = http.get("/status").json()
        assert (well["status"], well["trouble"]) == ("ok", {}) and 'class="strip"' not in http.get("/").text
        states["mlflow"] = "trouble: anna's secret"
        loop.trouble = "connection refused"
        loop._look.trouble = "the database is full"
        job = bring(loop.ledger, loop.ledger.submit("anna", "train", []), State.RUNNING)
        loop.ledger.end(job, State.FAILED, "failed", "exit 1", "exit code 1", 1)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1000 * 10**9, 0, 10**9))
        ill = http.get("/status").json()
        assert ill["status"] == "degraded"
        assert ill["trouble"] == {
            "MLflow": "has ended, and is started again; its log is in the home's folder service",
            "Ray": "does not answer: connection refused",
            "the scheduler": "stands still: the database is full",
            "the disk": "has 1.0 GB left of 1,000",
            "jobs": "1 job failed in the last hour",
        }
        page = http.get("/").text
        assert "<b>MLflow</b> has ended" in page and "<b>The disk</b> has 1.0 GB left" in page
        assert "1 job failed in the last hour</a>" in page and "secret" not in page
        loop.trouble, loop._look.trouble, states["mlflow"] = None, "", "ready"
        now = loop.ledger.now() + 3601
        monkeypatch.setattr(loop.ledger, "now", lambda: now)
        assert list(http.get("/status").json()["trouble"]) == ["the disk"]


def test_a_disk_below_the_home_is_named(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = loop.home / "runs"
    runs.mkdir()
    full = {runs: Usage(10**12, 10**12, 0)}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: full.get(folder, Usage(10**12, 0, 10**12)))
    assert Health(loop, "", dict).trouble() == {}
    monkeypatch.setattr(type(runs), "is_mount", lambda folder: folder == runs)
    assert Health(loop, "", dict).trouble() == {"the disk of runs": "has 0.0 GB left of 1,000"}


def test_a_tracking_server_elsewhere_is_asked(loop: Loop) -> None:
    assert "MLflow" in Health(loop, "http://127.0.0.1:9", dict).trouble()
    assert "MLflow" not in Health(loop, "", dict).trouble()
