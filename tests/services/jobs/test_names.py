"""A job has its name from its words at once; a name stands for the newest job that has it, on every surface."""

from collections.abc import Callable

import pytest

from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.operations import name_in
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import LOCAL, client
from tests.services.jobs.processes import words

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


@pytest.mark.parametrize(
    ("verb", "line", "name"),
    [
        ("train", "seed=1 name=mine", "mine"),
        ("train", "name=mine ++name=other", "other"),
        ("shard", "paths.shards=/srv/shards/books/", "books"),
        ("shard", "name=mine", ""),
        ("promote", "name=mine", ""),
    ],
)
def test_words_say_a_jobs_name(verb: str, line: str, name: str) -> None:
    assert name_in(verb, line.split()) == name


def test_a_refused_job_keeps_its_name(loop: Loop) -> None:
    with client(loop) as http:
        job = http.post("/v1/jobs", json={"verb": "train", "overrides": ["name=mine", "steps=many"]}).json()
        assert (job["name"], job["state"]) == ("mine", "submitted")
        loop._take()
        refused = http.get(f"/v1/jobs/{job['id']}").json()
        assert (refused["name"], refused["state"]) == ("mine", "failed")
        assert [one["id"] for one in http.get("/v1/jobs?name=mine").json()["jobs"]] == [job["id"]]


def test_a_name_means_the_newest_job_that_the_asker_may_see(loop: Loop) -> None:
    loop.scheduler.access.issue("r", "root", "admin", "up")
    annas, bens = (loop.scheduler.access.issue(name, name, "submitter", "root") for name in ("anna", "ben"))
    submit = loop.ledger.submit
    old, new = (submit("anna", "train", [], name="base") for _ in range(2))
    other = submit("ben", "train", [], name="base")
    with client(loop, keys=True, token=annas) as http:
        service = JobClient(LOCAL)
        service.close()
        service._http = http
        assert service.job("base")["id"] == new.id
        body = words(loop.home, "follow", 3)
        assert service.job(service.submit("train", body, after=["base"])["id"])["after"] == [new.id]
        assert http.post("/v1/jobs/base/after", json={"after": [old.id]}).json()["id"] == new.id
        assert http.post("/v1/jobs/base/stop", json={}).json() | {"id": new.id, "state": "stopped"}
        assert (loop.ledger.job(old.id).state, loop.ledger.job(new.id).state) == (State.SUBMITTED, State.STOPPED)
        for unknown in ("nobody", other.id):
            answer = http.post("/v1/jobs", json={"verb": "train", "overrides": body, "after": [unknown]})
            assert (answer.status_code, answer.json()["error"]) == (404, f"job '{unknown}' is not known")
        http.headers["Authorization"] = f"Bearer {bens}"
        assert http.get("/v1/jobs/base").json()["id"] == other.id


def test_the_command_line_takes_names(loop: Loop, ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    job = loop.ledger.submit("anna", "train", ["name=base"], name="base")
    assert ask("job", "base") == 0
    assert job.id in capsys.readouterr().out
    assert ask("jobs", "bas") == 0
    assert "train base" in capsys.readouterr().out
    assert ask("stop", "base") == 0
    assert loop.ledger.job(job.id).state == State.STOPPED
