"""The access log: a line for each change and each refusal, with person and token, and nothing secret."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.jobs.http.access_log import STRANGERS
from dragoman.services.jobs.service.loop import Loop
from tests.services.jobs.at_work import client
from tests.services.jobs.processes import words

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


@pytest.fixture
def log(loop: Loop) -> Path:
    (loop.home / "service").mkdir()
    return loop.home / "service" / "access.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_change_has_a_line_with_person_and_token_and_a_question_has_none(loop: Loop, log: Path) -> None:
    issue = loop.scheduler.access.issue
    issue("r", "root", "admin", "up")
    token = issue("laptop", "anna", "submitter", "root")
    body = {"verb": "train", "overrides": [*words(loop.home, "a", 3)]}
    with client(loop, keys=True, token=token) as http:
        job = http.post("/v1/jobs", json=body).json()["id"]
        for _ in range(2):
            assert http.get("/v1/jobs").status_code == http.post("/v1/plans", json=body).status_code == 200
        http.post(f"/v1/jobs/{job}/stop", json={})
        http.post("/v1/tokens", json={"name": "x", "owner": "x", "role": "viewer"})
    first, second, third = lines(log)
    assert (first["person"], first["token"], first["method"], first["path"]) == ("anna", "laptop", "POST", "/v1/jobs")
    assert (first["status"], second["status"], third["status"]) == (201, 200, 403)
    assert first["detail"].startswith(f"{job} submitted: train") and second["detail"] == f"{job} stopped"
    assert third["detail"] == "needs the role admin"
    assert token not in log.read_text()


def test_strangers_are_told_apart_and_cannot_fill_it(loop: Loop, log: Path) -> None:
    loop.scheduler.access.issue("r", "root", "admin", "up")
    with client(loop, keys=True) as http:
        http.get("/v1/jobs/dgm_a-token-in-the-wrong-place", headers={"Authorization": "Bearer dgm_wrong"})
        for _ in range(2 * STRANGERS[1]):
            http.get("/v1/jobs")
    found = lines(log)
    assert found[0]["path"] == "/v1/jobs/dgm_..." and found[0]["person"] == "" and found[0]["status"] == 401
    assert len(found) < 1.5 * STRANGERS[1]


def test_a_log_that_cannot_be_written_fails_no_request(loop: Loop, log: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.mkdir()
    with client(loop) as http:
        body = {"verb": "train", "overrides": words(loop.home, "a", 3)}
        assert http.post("/v1/jobs", json=body).status_code == 201
    assert "the line is" in caplog.text


def test_the_file_may_be_moved_away_at_any_time(loop: Loop, log: Path) -> None:
    with client(loop) as http:
        for number in range(2):
            http.post("/v1/jobs", json={"verb": "train", "overrides": words(loop.home, "a", 3)})
            log.rename(log.with_suffix(f".{number}"))
    assert [len(lines(log.with_suffix(f".{number}"))) for number in range(2)] == [1, 1]
