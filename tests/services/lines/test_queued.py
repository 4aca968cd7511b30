"""A line whose steps are jobs: which of them it asks the service to make again."""

from pathlib import Path
from typing import Any, cast

import pytest

from dragoman.model.errors import ServiceError
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.states import State
from dragoman.services.lines.board import Board
from dragoman.services.lines.recipe import Step
from dragoman.services.lines.running import run_queued


class Service:
    """A service that knows its jobs by their key; a job that waits has ended well at the next look."""

    def __init__(self, **states: State) -> None:
        self.states = {f"line-{name}-1": state for name, state in states.items()}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.retried: list[str] = []

    def submit(self, _verb: str, _words: Any, *, key: str, after: list[str], **_settings: Any) -> dict[str, Any]:
        self.asked.append((key, tuple(after)))
        return {"id": key, "state": self.states.setdefault(key, State.WAITING)}

    def act(self, job: str, what: str) -> None:
        assert what == "retry"
        self.retried.append(job)
        self.states[job] = State.WAITING

    def job(self, job: str) -> dict[str, Any]:
        if self.states[job] == State.WAITING:
            self.states[job] = State.SUCCEEDED
        return {"id": job, "state": self.states[job], "reason": "no reason"}


def steps(folder: Path) -> list[Step]:
    """`shards`, whose output is there, and `pairs`, whose output is not."""
    (folder / "shards").touch()
    return [
        Step("shards", "shard", (), (), "1", {}, (folder / "shards",)),
        Step("pairs", "synthesize", (), ("shards",), "1", {}, (folder / "pairs",)),
    ]


def follow(service: Service, folder: Path) -> list[str]:
    made: list[str] = []
    line = steps(folder)
    board = Board("line", line, folder / "line.html")
    run_queued(cast(JobClient, service), JobsConfig(), line, board, lambda step, _job: made.append(step.name))
    return made


def test_a_job_whose_output_was_deleted_is_retried(tmp_path: Path) -> None:
    service = Service(shards=State.SUCCEEDED, pairs=State.SUCCEEDED)
    assert follow(service, tmp_path) == ["shards", "pairs"]
    assert service.retried == ["line-pairs-1"]
    assert service.asked == [("line-shards-1", ()), ("line-pairs-1", ("line-shards-1",))]


def test_a_job_that_failed_is_retried_and_a_new_one_is_not(tmp_path: Path) -> None:
    service = Service(shards=State.FAILED)
    assert follow(service, tmp_path) == ["shards", "pairs"]
    assert service.retried == ["line-shards-1"]


def test_a_job_that_fails_again_ends_the_line_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service(shards=State.FAILED)
    monkeypatch.setattr(service, "act", lambda *_: None)
    with pytest.raises(ServiceError, match=r"step shards: job line-shards-1 .*: no reason"):
        follow(service, tmp_path)
    assert "shards: failed" in capsys.readouterr().out
