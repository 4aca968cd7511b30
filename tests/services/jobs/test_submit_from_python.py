"""`dragoman.submit` against the job service's own application."""

import pytest

import dragoman
from dragoman.services.jobs.service.loop import Loop
from tests.services.jobs.processes import words

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


@pytest.mark.usefixtures("planned", "ask")
def test_a_job_is_submitted_asked_for_and_stopped(loop: Loop) -> None:
    where = {"jobs.service": "http://127.0.0.1:8300", "jobs.priority": "high"}
    job = dragoman.submit("train", *words(loop.home, "a", 3), **where)
    assert (job.verb, job.state, job.ended) == ("train", "waiting", False)
    with pytest.raises(dragoman.DragomanError, match=f"{job.name} is waiting after 0 seconds") as late:
        job.wait(timeout=0)
    assert not late.value.mistake
    assert job.stop().ended
    assert job.wait() == job.refresh()
    assert job.refresh().state == "stopped"
    with pytest.raises(dragoman.DragomanError, match="nosuch"):
        dragoman.submit("nosuch", **where)
