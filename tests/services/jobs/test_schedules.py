"""Schedules: due once, also after a downtime or with two services; who may change them; what is refused."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.own_tokens import OwnTokens
from dragoman.services.jobs.ledger.tables import Schedule
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.schedules import MOST, Schedules, next_time
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import client
from tests.services.jobs.processes import words

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`"),
    pytest.mark.filterwarnings("ignore:You should not use the 'timeout' argument with the TestClient"),
]
OPTIONS: dict[str, Any] = {"priority": "high", "tags": ["nightly"], "notify": [], "retries": 2, "max_hours": 1.5}
START = datetime(2030, 1, 31, 2, 59, 30, tzinfo=UTC).timestamp()
DAY = 86_400.0
ANNA, BERT = Person("anna", "submitter"), Person("bert", "submitter")


@pytest.fixture
def now(ledger: Ledger) -> list[float]:
    """The ledger's clock, which a test sets."""
    found = [START]
    ledger.now = lambda: found[0]
    return found


@pytest.fixture
def schedules(ledger: Ledger, now: list[float]) -> Schedules:
    return Schedules(ledger, ServiceConfig(waiting=3))


def end(ledger: Ledger) -> None:
    for job in ledger.jobs([State.SUBMITTED]):
        ledger.change(job, State.STOPPED, "anna", "stopped")


def test_a_due_schedule_brings_one_job_with_its_options_and_time(
    ledger: Ledger, now: list[float], schedules: Schedules
) -> None:
    schedules.add(ANNA, "0 3 * * *", "train", ["name=n-@time"], OPTIONS)
    schedules.look()
    assert ledger.jobs() == []
    now[0] += 31
    schedules.look()
    schedules.look()
    (job,) = ledger.jobs()
    assert (job.owner, job.verb, job.words, job.tags) == ("anna", "train", ["name=n-20300131T0300"], ["nightly"])
    assert (job.priority, job.retries, job.max_seconds, job.admin) == (10, 2, 5400.0, False)
    (one,) = schedules.all()
    assert (one.job, one.due, one.trouble) == (job.id, START + 30 + DAY, "")


def test_times_that_passed_without_a_service_bring_one_job(
    ledger: Ledger, now: list[float], schedules: Schedules
) -> None:
    schedules.add(ANNA, "0 3 * * *", "shard", [], OPTIONS)
    now[0] += 10 * DAY
    schedules.look()
    schedules.look()
    assert len(ledger.jobs()) == 1
    assert schedules.all()[0].due == START + 30 + 10 * DAY


def test_a_service_that_dies_after_the_submission_makes_no_second_job(
    ledger: Ledger, now: list[float], schedules: Schedules
) -> None:
    due = schedules.add(ANNA, "0 3 * * *", "shard", [], OPTIONS).due
    now[0] += 60
    schedules.look()
    with ledger.database.write() as session:  # as if it had not been noted
        session.execute(update(Schedule).values(due=due, job=None))
    Schedules(ledger, schedules.config).look()
    (job,) = ledger.jobs()
    assert schedules.all()[0].job == job.id


def test_a_time_is_left_out_while_the_last_job_runs_or_the_owner_has_too_many(
    ledger: Ledger, now: list[float], schedules: Schedules
) -> None:
    schedules.add(ANNA, "* * * * *", "shard", [], OPTIONS)
    for _ in range(2):
        now[0] += 60
        schedules.look()
    (job,) = ledger.jobs()
    assert schedules.all()[0].trouble == f"its last job {job.id} had not ended"
    end(ledger)
    for _ in range(3):
        ledger.submit("anna", "shard", [])
    now[0] += 60
    schedules.look()
    assert schedules.all()[0].trouble == "3 of its owner's jobs have not ended"
    end(ledger)
    now[0] += 60
    schedules.look()
    assert (len(ledger.jobs()), schedules.all()[0].trouble) == (5, "")


def test_a_paused_schedule_brings_nothing_and_goes_on_from_its_next_time(
    ledger: Ledger, now: list[float], schedules: Schedules
) -> None:
    one = schedules.add(ANNA, "0 3 * * *", "shard", [], OPTIONS)
    schedules.set_active(one, False, ANNA)
    now[0] += 2 * DAY
    schedules.look()
    paused = schedules.get(one.id)
    assert paused is not None and paused.due is None
    schedules.set_active(paused, True, ANNA)
    schedules.look()
    assert ledger.jobs() == []
    assert schedules.all()[0].due == START + 30 + 2 * DAY
    schedules.remove(one, "anna")
    assert schedules.all() == []
    again = schedules.add(ANNA, "0 3 * * *", "shard", [], OPTIONS)
    assert again.id > one.id  # its jobs' keys are new


def test_a_schedule_ends_with_the_token_that_made_it(ledger: Ledger, now: list[float], schedules: Schedules) -> None:
    access = Access(ledger)
    before = schedules.add(BERT, "* * * * *", "shard", [], OPTIONS)  # nobody needed a token
    access.issue("root", "root", "admin", "up")
    person = access.person(access.issue("anna", "anna", "submitter", "root"))
    assert person is not None
    brief = access.person(OwnTokens(access).make(person, "ci", "submitter", "1d"))
    assert brief is not None
    made = [schedules.add(one, "* * * * *", "shard", [], OPTIONS) for one in (person, brief)]
    now[0] += 60
    schedules.look()
    assert [one.owner for one in ledger.jobs()] == ["anna", "anna"]  # bert has no token
    end(ledger)
    now[0] += 2 * DAY
    schedules.look()
    assert [bool(one.job) for one in schedules.all()] == [False, True, True]
    assert len(ledger.jobs()) == 3
    end(ledger)
    access.revoke("anna", "root")
    now[0] += 60
    schedules.look()
    assert len(ledger.jobs()) == 3
    for one in schedules.all():
        assert one.due is None and "resume it with a valid one" in one.trouble
    access.issue("bert", "bert", "submitter", "root")
    again = access.person(access.issue("anna2", "anna", "submitter", "root"))
    assert again is not None
    for one in (before, made[0]):
        paused = schedules.get(one.id)
        assert paused is not None
        schedules.set_active(paused, True, again)
    now[0] += 60
    schedules.look()
    assert len(ledger.jobs()) == 5


@pytest.mark.parametrize(
    ("every", "says"),
    [("@daily", "five fields"), ("0 3 * *", "five fields"), ("61 * * * *", "Bad"), ("0 0 30 2 *", "day-of-month")],
)
def test_an_impossible_expression_is_refused(every: str, says: str) -> None:
    with pytest.raises(UserError, match=f"jobs.every='.*{says}"):
        next_time(every, START)


def test_trainings_of_one_name_and_too_many_schedules_are_refused(schedules: Schedules) -> None:
    with pytest.raises(UserError, match="put @time into it"):
        schedules.check("0 3 * * *", "train", ["name=a"], OPTIONS)
    for _ in range(MOST):
        schedules.add(ANNA, "0 3 * * *", "shard", [], OPTIONS)
    with pytest.raises(UserError, match=f"{MOST} schedules"):
        schedules.add(ANNA, "0 3 * * *", "shard", [], OPTIONS)
    schedules.add(BERT, "0 3 * * *", "shard", [], OPTIONS)


def test_schedules_are_their_owners(loop: Loop) -> None:
    access = Access(loop.ledger)
    access.issue("root", "root", "admin", "test")
    tokens = {name: access.issue(name, name, "submitter", "test") for name in ("anna", "bert")}
    viewer = access.issue("vera", "vera", "viewer", "test")
    body = {"verb": "train", "overrides": words(loop.home, "@time", 3), "every": "0 3 * * *"}
    with client(loop, keys=True, token=viewer) as http:
        assert http.post("/v1/schedules", json=body).status_code == 403
    with client(loop, keys=True, token=tokens["anna"]) as http:
        assert http.post("/v1/schedules", json={**body, "after": ["j-1"]}).status_code == 422
        wrong = {**body, "overrides": [*body["overrides"], "cluster.workers=999"]}
        assert http.post("/v1/schedules", json=wrong).status_code == 400
        made = http.post("/v1/schedules", json=body)
        assert made.status_code == 201, made.text
        path = f"/v1/schedules/{made.json()['id']}"
    with client(loop, keys=True, token=tokens["bert"]) as http:
        assert http.get("/v1/schedules").json() == []
        assert [http.post(f"{path}/pause", json={}).status_code, http.delete(path).status_code] == [404, 404]
    with client(loop, keys=True, token=tokens["anna"]) as http:
        assert http.post(f"{path}/pause", json={}).status_code == 204
        assert [one["due"] for one in http.get("/v1/schedules").json()] == [None]
        assert [http.delete(path).status_code, http.delete(path).status_code] == [204, 404]


def test_the_command_line_enters_lists_pauses_and_removes(
    loop: Loop, ask: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["train", *words(loop.home, "@time", 3)]
    assert ask("submit", "--every", "*/5 3,4 * * 1-5", "jobs.tags=[n]", *job) == 0
    number = capsys.readouterr().out.strip()
    assert ask("schedules") == 0
    shown = capsys.readouterr().out
    assert "*/5 3,4 * * 1-5" in shown and "@time" in shown
    (one,) = loop.schedules.all()
    with loop.ledger.database.write() as session:
        session.merge(one).options = {**one.options, "project": "vision"}
    assert ask("schedules") == 0 and f" {one.owner} (vision) " in capsys.readouterr().out
    with client(loop) as http:
        assert [found["project"] for found in http.get("/v1/schedules").json()] == ["vision"]
    assert ask("schedules", "pause", number) == 0 and "paused" in capsys.readouterr().out
    assert ask("schedules", "rm", number) == 0 and number not in capsys.readouterr().out.split()
    assert ask("submit", "--every", "0 3 * *", *job) == 2
    with pytest.raises(UserError, match="--every: say when"):
        ask("submit", "--every")
    assert ask("submit", "--every", "0 3 * * *", "jobs.by=08:00", *job) == 2
    assert ask("schedules", "stop", number) == 2
    assert loop.schedules.all() == [] and loop.ledger.jobs() == []


def test_a_clock_that_goes_ahead_a_day_and_back_leaves_no_schedule_silent(
    ledger: Ledger, now: list[float], schedules: Schedules
) -> None:
    schedules.add(ANNA, "0 * * * *", "shard", [], OPTIONS)
    schedules.look()
    now[0] += DAY
    schedules.look()
    end(ledger)
    now[0] = START
    for _ in range(3):
        schedules.look()
    assert schedules.all()[0].due == START + 30
    now[0] += 3600 + 60
    schedules.look()
    assert [job.key for job in ledger.jobs()].count(f"schedule-1-{START + 30:.0f}") == 1
    assert schedules.all()[0].due == START + 30 + 2 * 3600
