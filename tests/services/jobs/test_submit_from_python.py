"""`dragoman.submit` against the job service's own application."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.services.jobs.client import verbs
from dragoman.services.jobs.client.client import Detail, JobClient
from tests.services.jobs.at_work import application
from tests.services.jobs.processes import make_loop, words

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A service whose loop takes what was submitted when it is asked whether that is planned."""
    from fastapi.testclient import TestClient

    loop = make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path)
    loop.capacity = loop.executor.capacity()
    app = application(loop)

    class Client(JobClient):
        def __init__(self, address: str, *more: Any, **settings: Any) -> None:
            super().__init__(address, *more, **settings)
            with contextlib.closing(self._http) as real:
                self._http = TestClient(app, base_url=address, headers=real.headers)

        def planned(self, name: str, patience: float = 180.0) -> Detail:
            loop._take()
            return super().planned(name, patience)

    monkeypatch.setattr(verbs, "JobClient", Client)
    yield loop.home
    loop.ledger.database.close()


def test_a_job_is_submitted_asked_for_and_stopped(home: Path) -> None:
    where = {"jobs.service": "http://127.0.0.1:8300", "jobs.priority": "high"}
    job = dragoman.submit("train", *words(home, "a", 3), **where)
    assert (job.verb, job.state, job.ended) == ("train", "waiting", False)
    with pytest.raises(dragoman.DragomanError, match=f"{job.name} is waiting after 0 seconds") as late:
        job.wait(timeout=0)
    assert not late.value.mistake
    assert job.stop().ended
    assert job.wait() == job.refresh()
    assert job.refresh().state == "stopped"
    with pytest.raises(dragoman.DragomanError, match="nosuch"):
        dragoman.submit("nosuch", **where)
