"""Whose registered models are: who may register, promote, force and go back, when handed in and when it starts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.client.admin import owner as owner_verb
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages.models import shown
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.service.attempts import describe_attempt
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.tracking import Model, Move, Tracking, Version
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import application
from tests.services.jobs.processes import StubPlanner, make_loop

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
LOCAL = "http://127.0.0.1:8300"


class Planner(StubPlanner):
    """Plans that say which model a job writes to: the word model=NAME."""

    def plan(
        self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False, owner: str = ""
    ) -> dict[str, Any]:
        own = next((word.partition("=")[2] for word in words if word.startswith("model=")), "")
        return {**super().plan(verb, words, gpus, early), "model": own}


class Registered(Tracking):
    """MLflow with these models."""

    def __init__(self) -> None:
        super().__init__("http://mlflow", "")
        self.found: dict[str, Model] = {}
        self.away = False

    def model(self, name: str) -> Model | None:
        if self.away:
            raise ServiceError("MLflow does not answer")
        return self.found.get(name)

    def set_model_tag(self, name: str, key: str, value: str) -> None:
        assert key == "dragoman.owner" and not self.away
        self.found[name] = replace(self.found[name], owner=value)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    one = make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path)
    one.capacity = one.executor.capacity()
    one.intake.planner = Planner(tmp_path)  # type: ignore[assignment]  # as far as it is asked
    one.intake.ownership.tracking = Registered()
    yield one
    one.ledger.database.close()


@pytest.fixture
def people(loop: Loop) -> Iterator[dict[str, httpx.Client]]:
    """Anna and Ben, who hand in jobs, and the admin Zelda."""
    from fastapi.testclient import TestClient

    app = application(loop, True)
    issue = loop.scheduler.access.issue
    roles = {"zelda": "admin", "anna": "submitter", "ben": "submitter"}
    tokens = {name: issue(name, name, role, "zelda") for name, role in roles.items()}
    heads = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    yield {name: TestClient(app, base_url=LOCAL, headers=head) for name, head in heads.items()}


def asks(loop: Loop, http: httpx.Client, verb: str, run: str, model: str) -> tuple[str, Job]:
    """What the plan is refused with (empty: it is not), and the job after it was planned."""
    body = {"verb": verb, "overrides": [f"run={loop.home}/{run}", "steps=1", f"model={model}"]}
    plan = http.post("/v1/plans", json=body)
    job = http.post("/v1/jobs", json=body).json()["id"]
    loop._take()
    return plan.json().get("error", ""), loop.ledger.job(job)


def test_a_model_belongs_to_whoever_had_the_first_job_accepted_that_registers_it(
    loop: Loop, people: dict[str, httpx.Client]
) -> None:
    assert asks(loop, people["anna"], "train", "a", "m")[1].state == State.WAITING
    for verb in ("train", "promote", "rollback"):  # with force or without: a submitter chooses what proves it
        refused, job = asks(loop, people["ben"], verb, f"b-{verb}", "m")
        assert refused.startswith("registry.name=m: the model belongs to another owner")
        assert (job.state, job.attempt, job.reason) == (State.FAILED, 0, refused)
        assert asks(loop, people["anna"], verb, f"a-{verb}", "m")[1].state == State.WAITING
        assert asks(loop, people["zelda"], verb, f"z-{verb}", "m")[1].state == State.WAITING
    assert asks(loop, people["ben"], "train", "own", "n")[1].state == State.WAITING
    assert asks(loop, people["ben"], "train", "none", "")[1].state == State.WAITING
    owned = {name: http.get("/v1/models").json() for name, http in people.items()}
    assert [(one["name"], one["owner"]) for one in owned["zelda"]] == [("m", "anna"), ("n", "ben")]
    assert [one["name"] for one in owned["ben"]] == ["n"]


def test_an_admin_gives_a_model_to_another_and_what_waits_is_checked_again(
    loop: Loop, people: dict[str, httpx.Client], capsys: pytest.CaptureFixture[str]
) -> None:
    registry = loop.intake.ownership.tracking
    assert isinstance(registry, Registered)
    _, job = asks(loop, people["anna"], "train", "a", "m")
    registry.found["m"] = Model("m", {}, owner="anna")
    assert people["ben"].put("/v1/models/m", json={"owner": "ben"}).status_code == 403
    client = JobClient(LOCAL)
    client.close()
    client._http = people["zelda"]
    with pytest.raises(UserError, match="say what and whose"):
        owner_verb(JobsConfig(), client, ["m"])
    owner_verb(JobsConfig(), client, ["m", "ben"])
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["m", "ben"]
    assert registry.found["m"].owner == "ben"
    loop.scheduler.run(loop.executor.capacity())
    loop.attempts.hand_over(loop.ledger.jobs([State.STARTING], plans=True)[0])
    ended = loop.ledger.job(job.id)
    assert ended.state == State.FAILED and "belongs to another owner" in ended.reason
    assert not (loop.home / "started").exists()  # nothing of it ran
    registry.away = True
    with pytest.raises(ServiceError):
        loop.intake.ownership.give("m", "anna", "zelda")
    assert loop.intake.ownership.names.owner("m") == "ben"


def test_models_that_were_there_before_belong_to_their_tag_their_first_job_or_nobody(
    loop: Loop, people: dict[str, httpx.Client]
) -> None:
    registry = loop.intake.ownership.tracking
    assert isinstance(registry, Registered)
    first = loop.ledger.submit("anna", "train", []).id
    version = Version("made", "1", "r", 0.0, (), {"dragoman.job": first}, "READY")
    for model in (Model("tagged", {}, owner="anna"), Model("made", {}, versions=[version]), Model("old", {})):
        registry.found[model.name] = model
    for name, reason in (("tagged", "belongs to another"), ("made", "belongs to another"), ("old", "has no owner")):
        assert reason in asks(loop, people["ben"], "promote", name, name)[0]
    assert registry.found["made"].owner == "anna"
    assert asks(loop, people["zelda"], "promote", "z", "old")[1].state == State.WAITING
    registry.away = True  # then nobody gets a name, and the job's own process asks MLflow
    assert asks(loop, people["ben"], "train", "away", "fresh")[1].state == State.WAITING
    assert loop.intake.ownership.names.owner("fresh") is None


def test_an_admins_rights_are_neither_kept_nor_lent(loop: Loop, people: dict[str, httpx.Client]) -> None:
    asks(loop, people["anna"], "train", "a", "m")
    for handed_in, retried in (("zelda", "zelda"), ("ben", "zelda")):
        _, job = asks(loop, people[handed_in], "promote", f"p-{handed_in}", "m")
        people[handed_in].post(f"/v1/jobs/{job.id}/stop", json={})
        assert people[retried].post(f"/v1/jobs/{job.id}/retry", json={}).status_code == 200
        loop._take()
        assert loop.ledger.job(job.id).state == (State.WAITING if handed_in == "zelda" else State.FAILED)
    _, job = asks(loop, people["zelda"], "promote", "later", "m")
    people["zelda"].post(f"/v1/jobs/{job.id}/stop", json={})
    no_admin = loop.scheduler.access.issue("less", "zelda", "submitter", "zelda")
    people["zelda"].headers["Authorization"] = f"Bearer {no_admin}"
    people["zelda"].post(f"/v1/jobs/{job.id}/retry", json={})
    loop._take()
    assert loop.ledger.job(job.id).state == State.FAILED


def test_a_jobs_processes_are_told_whose_they_are(loop: Loop) -> None:
    job = loop.ledger.submit("anna", "doctor", [])
    start = replace(describe_attempt(job), model_owner="ben")
    environment = start.variables()
    assert (environment["DRAGOMAN_OWNER"], environment["DRAGOMAN_MODEL_OWNER"]) == ("anna", "ben")


def test_a_plan_names_the_model_that_the_job_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))

    def model(verb: str, *words: str) -> str:
        return str(make_plan(verb, words, [tmp_path], 0, True)["model"])

    assert model("train") == "phrasebook-en-de"
    assert model("train", "registry.name=mine") == "mine"
    assert model("train", "registry={name: mine}") == "mine"
    assert model("train", "registry.register=false") == ""
    assert model("promote", "promote.force=true", "promote.reason=x", "registry.name=m") == "m"
    assert model("rollback") == "phrasebook-en-de"
    assert model("shard") == ""


def test_a_models_page_names_no_owner_that_the_visitor_may_not_see(loop: Loop) -> None:
    from dragoman.services.jobs.ledger.access import Person

    moves = [Move("forced", "2", "1", "why", f"{name}@host", "2030-01-01") for name in ("anna", "ben")]
    model = Model("m", {}, moves, owner="ben")
    found = shown(Person("anna", "viewer"), model)
    assert [one.by for one in found.moves] == ["anna@host", "another owner@host"] and found.owner == "another owner"
    assert shown(Person("zelda", "admin"), model) == model
