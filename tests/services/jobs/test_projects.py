"""Projects over HTTP: who sees and changes what, quotas, models, folders, and how people come and go."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.model.errors import UserError
from dragoman.services.jobs.client import admin, special
from dragoman.services.jobs.client.admin import projects
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.scheduling.decide import decide_queue
from dragoman.services.jobs.scheduling.entries import Capacity, Entry, Start
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.scheduling.why import explain, forecasts
from dragoman.services.jobs.states import Quota, State
from tests.services.jobs.processes import words
from tests.services.jobs.project_team import Team


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with contextlib.ExitStack() as stack:
        yield Team(tmp_path, stack)


def test_members_see_each_others_jobs_and_nobody_else_does(team: Team) -> None:
    shared, private = team.submit("anna", "a").id, team.submit("anna", "p", project="").id
    others = team.submit("ben", "b").id
    assert team.seen("ben") == {shared, others} and team.seen("carl") == {shared, others}
    assert team.seen("anna") == {shared, private, others} and team.seen("dora") == set()
    assert team.seen("ben", owner="anna") == {shared} and team.seen("anna", project="vision") == {shared, others}
    assert team.people["ben"].jobs()["counts"] == {"waiting": 2}
    paths = ["", "/why", "/logs", "/report", "/curves", "/log-events"]
    pages = [f"/v1/jobs/{{}}{path}" for path in paths] + ["/v1/events?job={}"]
    for path in (one.format(shared) for one in pages if "events" not in one):
        assert (team.code("ben", path), team.code("dora", path)) == (200, 404), path
    for path in pages:
        assert team.code("ben", path.format(private)) == 404, path
    detail = team.people["ben"].job(shared)
    assert (detail["owner"], detail["project"]) == ("anna", "vision")
    assert detail["changes"][0]["actor"] == "anna"  # members know each other
    told = [one for one in team.ledger.changes(owner="ben", projects=["vision"]) if one.job]
    assert {one.job for one in told} == {shared, others}
    assert team.code("dora", "/v1/projects/vision") == 404 and team.people["dora"].projects() == []
    assert [one["name"] for one in team.people["ben"].projects()] == ["vision"]


def test_a_member_changes_their_own_jobs_and_a_maintainer_all_of_the_project(team: Team) -> None:
    job, private = team.submit("anna", "a").id, team.submit("anna", "p", project="").id
    changes: list[tuple[str, str, dict[str, Any]]] = [
        *(("POST", f"/v1/jobs/{{}}/{action}", {"json": {}}) for action in ("stop", "yield", "retry")),
        ("POST", "/v1/jobs/{}/priority", {"json": {"priority": "high"}}),
        ("POST", "/v1/jobs/{}/after", {"json": {"after": []}}),
        ("DELETE", "/v1/jobs/{}", {}),
    ]
    for method, path, more in changes:
        assert team.code("ben", path.format(job), method, **more) == 403, path
        assert team.code("dora", path.format(job), method, **more) == 404, path
        assert team.code("carl", path.format(private), method, **more) == 404, path
    with pytest.raises(UserError, match="is anna's: they and a maintainer of vision may do it"):
        team.people["ben"].act(job, "stop")
    team.people["carl"].act(job, "priority", priority="high")
    stopped = team.people["carl"].act(job, "stop")
    assert stopped["reason"] == "stopped by carl, a maintainer of vision"
    viewer = team.people["carl"].make_token("v", role="viewer")
    team.tokens["viewer"] = viewer
    assert team.code("viewer", f"/v1/jobs/{job}") == 200
    assert team.code("viewer", f"/v1/jobs/{job}", "DELETE") == 403  # a role stays the upper bound
    assert team.code("viewer", "/v1/projects/vision/members/dora", "PUT", json={}) == 403
    team.people["carl"].remove(job)
    assert team.seen("anna") == {private}


def test_who_is_no_member_submits_nothing_there_and_learns_nothing(team: Team) -> None:
    said = []
    for project in ("vision", "nothing"):
        line = words(team.home, "x", 3)
        calls: list[Callable[[], object]] = [
            lambda: team.people["dora"].submit("train", line, project=project),  # noqa: B023  # called at once
            lambda: team.people["dora"].submit_array("train", line, [["seed=1"], ["seed=2"]], project=project),  # noqa: B023
            lambda: team.people["dora"].schedule("0 3 * * *", "train", [*line, "x=@time"], project=project),  # noqa: B023
        ]
        for call in calls:
            with pytest.raises(UserError) as refused:
                call()
            said.append(str(refused.value).replace(project, "PROJECT"))
    text = "jobs.project=PROJECT: there is no such project, or dora is no member of it; dora has: none"
    assert set(said) == {text}
    assert team.ledger.jobs() == [] and team.loop.schedules.all() == []
    for odd in ("../x", "a b", "x" * 65, "vision\n"):
        body = {"verb": "train", "overrides": words(team.home, "x", 3), "project": odd}
        assert team.code("anna", "/v1/jobs", "POST", json=body) == 422, odd
    assert team.people["root"].submit("train", words(team.home, "r", 3), project="vision")["project"] == "vision"
    with pytest.raises(UserError, match="root has: none"):
        team.people["root"].submit("train", words(team.home, "r", 3), project="nothing")


def test_only_maintainers_choose_members_and_only_admins_make_projects(team: Team) -> None:
    for who, codes in {"ben": (403, 403), "dora": (404, 403), "carl": (204, 403)}.items():
        asked = (
            team.code(who, "/v1/projects/vision/members/emil", "PUT", json={"role": "maintainer"}),
            team.code(who, "/v1/projects", "POST", json={"name": f"of-{who}"}),
        )
        assert asked == codes, who
        assert team.code(who, "/v1/projects/vision/quota", "PUT", json={"cpus": 99}) == 403
        assert team.code(who, "/v1/projects/vision", "DELETE") == 403
    members = {one["owner"]: one["role"] for one in team.people["ben"].one_project("vision")["members"]}
    assert members == {"anna": "member", "ben": "member", "carl": "maintainer", "emil": "maintainer"}
    assert team.code("ben", "/v1/projects/vision/members/anna", "DELETE") == 403
    team.people["ben"].remove_member("vision", "ben")  # one may leave
    assert team.code("ben", "/v1/projects/vision") == 404
    for odd in ("king", "admin", ""):
        assert team.code("carl", "/v1/projects/vision/members/fred", "PUT", json={"role": odd}) == 422
    root = team.people["root"]
    with pytest.raises(UserError, match="there is one of that name"):
        root.create_project("vision")
    with pytest.raises(UserError, match="anna is no member"):
        root.remove_member(root.create_project("other")["name"], "anna")


def test_a_member_who_left_sees_no_more_and_what_waits_does_not_start(team: Team) -> None:
    job, kept = team.submit("anna", "a"), team.submit("ben", "b")
    opened, ended = threading.Event(), threading.Event()

    def read() -> None:
        headers = {"Authorization": f"Bearer {team.tokens['anna']}"}
        stream = httpx.stream("GET", f"{team.address}/v1/events", headers=headers, timeout=60)
        with contextlib.suppress(httpx.HTTPError), stream as answer:
            opened.set()
            for _ in answer.iter_bytes():
                pass
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    assert opened.wait(60)
    team.people["carl"].remove_member("vision", "anna")
    assert ended.wait(30)  # the stream that showed them
    assert team.seen("anna") == {job.id} and team.code("anna", f"/v1/jobs/{kept.id}") == 404
    assert team.seen("carl") == {job.id, kept.id}
    team.start()
    for one in team.ledger.jobs([State.STARTING], plans=True, ascending=True):
        if one.id == job.id:
            team.loop.attempts.hand_over(one)
    failed = team.ledger.job(job.id)
    assert failed.state == State.FAILED and "anna is no member of it" in failed.reason
    with pytest.raises(UserError, match="anna is no member of it"):
        team.people["anna"].act(job.id, "retry")
    with pytest.raises(UserError, match="anna is no member of it"):
        team.submit("anna", "again")


def test_a_projects_jobs_share_one_quota_and_the_plan_says_why_one_waits(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    root = team.people["root"]
    projects(JobsConfig(), root, ["quota", "vision", "cpus=none", "jobs=1"])
    assert "0 of 1 run, 0 wait" in capsys.readouterr().out
    first, second = team.submit("anna", "a"), team.submit("ben", "b")
    private = team.submit("anna", "p", project="")
    team.start()
    states = {one.id: one.state for one in team.ledger.jobs()}
    assert states == {first.id: "starting", second.id: "waiting", private.id: "starting"}
    why = team.people["ben"].why(second.id)
    assert why["text"] == "as many jobs run as the quota of project vision allows at once"
    assert [(one["job"], one["owner"]) for one in why["holders"]] == [(first.id, "anna")]
    assert team.people["ben"].one_project("vision")["running"] == 1
    root.set_project_quota("vision", cpus=1)
    team.start()
    assert team.people["ben"].why(second.id)["text"] == "needs 1 CPU, of the quota of project vision 0 are left"
    root.set_project_quota("vision", cpus=2)
    private_text = team.people["anna"].quotas()
    assert private_text == [{"owner": "project vision", "cpus": 2.0, "gpus": None, "jobs": None}]
    assert team.people["dora"].quotas() == []
    admin.quota(JobsConfig(), root, ["anna", "jobs=0"])
    assert re.search(r"anna +no bound +no bound +0", capsys.readouterr().out)
    for wrong in ("jobs=1.5", "jobs=-1", "jobs=many"):
        with pytest.raises(UserError, match="jobs"):
            projects(JobsConfig(), root, ["quota", "vision", wrong])


def entry(name: str, owner: str, account: str = "", age: int = 1, **more: Any) -> Entry:
    state = more.pop("state", State.WAITING)
    return Entry(name, owner, state, 0, age, Needs((1,), 1.0), account=account, low=60.0, high=60.0, **more)


def test_the_scheduler_counts_a_project_as_it_counts_an_owner() -> None:
    """Quota, reservation and reasons are the same; an owner's other jobs are counted apart."""
    vision, capacity = "project vision", Capacity((Node("a", 8.0),))
    running = entry("r", "anna", vision, state=State.RUNNING, workers=1)
    waiting = [entry("a", "ben", vision, 2), entry("b", "anna", vision, 3), entry("c", "anna", "", 4)]
    for quota in (Quota(cpus=1), Quota(jobs=1)):
        found = decide_queue(Queue([running, *waiting]), {vision: quota}, capacity, 0.0)
        assert [one.job for one in found.decisions if isinstance(one, Start)] == ["c"]
        assert found.waits["a"].behind == vision and found.waits["a"].kind == "quota"
    owner = decide_queue(Queue([running, *waiting]), {"anna": Quota(jobs=0)}, capacity, 0.0)
    assert sorted(one.job for one in owner.decisions if isinstance(one, Start)) == ["a", "b"]
    why = explain("a", Queue([running, *waiting]), {vision: Quota(jobs=1)}, capacity, 0.0)
    start = forecasts(Queue([running, *waiting]), {vision: Quota(jobs=1)}, capacity, 0.0)["a"]
    assert (start.earliest, start.latest) == (60.0, 60.0) and why.holders[0].amount == 1.0


def test_a_projects_models_are_promoted_by_its_members_alone(team: Team) -> None:
    assert team.submit("anna", "a", model="m").state == State.WAITING
    assert team.loop.intake.ownership.names.owner("m") == "project vision"
    for verb in ("promote", "rollback", "train"):
        assert team.submit("ben", f"b-{verb}", verb=verb, model="m").state == State.WAITING, verb
    refused = team.submit("ben", "b2", project="", verb="promote", model="m")
    assert refused.reason == "registry.name=m: the model belongs to project vision: add jobs.project=vision"
    refused = team.submit("dora", "d", project="", verb="promote", model="m")
    assert refused.reason == "registry.name=m: the model belongs to another owner"
    assert [one["owner"] for one in team.people["ben"].models()] == ["project vision"]
    assert team.people["dora"].models() == []
    assert team.people["ben"].one_project("vision")["models"] == ["m"]
    team.people["root"].create_project("other")
    team.people["root"].add_member("other", "dora")
    refused = team.submit("dora", "d2", project="other", verb="promote", model="m")
    assert refused.state == State.FAILED and "another owner" in refused.reason
    assert team.submit("anna", "own", project="", model="n").state == State.WAITING
    assert team.submit("anna", "own2", verb="promote", model="n").state == State.WAITING  # hers, in the project's job
    assert "another owner" in team.submit("ben", "b3", verb="promote", model="n").reason


def test_a_model_is_given_to_a_project_and_its_jobs_know_whose_it_is(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    root = team.people["root"]
    team.submit("anna", "p", project="", model="m")
    admin.owner(JobsConfig(), root, ["m", "project=vision"])
    assert re.search(r"m +project vision", capsys.readouterr().out)
    for mistake in (["m", "project=none"], ["m", "ben", "project=vision"], ["project=vision"], ["m"]):
        with pytest.raises(UserError):
            admin.owner(JobsConfig(), root, mistake)
    assert team.code("root", "/v1/models/m", "PUT", json={"owner": "a", "project": "vision"}) == 422
    job = team.submit("ben", "b", verb="promote", model="m")
    handed = []
    team.loop.executor.submit = handed.append  # type: ignore[method-assign]
    team.start()
    for one in team.ledger.jobs([State.STARTING], plans=True):
        with contextlib.suppress(UserError):
            team.loop.attempts.hand_over(one)
    (start,) = [one for one in handed if one.job == job.id]
    assert (start.owner, start.model_owner) == ("ben", "project vision")
    with pytest.raises(UserError, match="give its models away first: dragoman owner m OWNER"):
        for one in team.ledger.jobs():
            if one.project and one.state == State.STARTING:
                team.ledger.end(one, State.SUCCEEDED, "succeeded", "end", "", 0)
        root.remove_project("vision")


def test_what_a_projects_jobs_make_is_the_projects(team: Team) -> None:
    """Members go on with it in the project's jobs; neither outsiders nor jobs outside of the project do."""
    run = team.home / "shared"
    assert team.submit("anna", "shared").state == State.WAITING
    run.mkdir()
    (run / "weights").write_text("x")
    assert team.submit("ben", "shared").state == State.WAITING
    for who, project in (("ben", ""), ("anna", ""), ("dora", "")):
        refused = team.submit(who, "shared", project)
        assert refused.state == State.FAILED and "belongs to another owner" in refused.reason, (who, project)
    check = team.loop.intake.places.check
    use = [{"key": "name", "value": "shared", "path": str(run), "use": "read"}]
    assert check("ben", use, "project vision")["write"] == [str(run)]
    assert check("ben", use, "ben") == {"read": [str(run)], "write": [], "record": []}  # a member, in a job of his own
    for owner, account in (("dora", ""), ("dora", "project other"), ("vision", "")):
        with pytest.raises(UserError, match="belongs to another owner"):
            check(owner, use, account)
    own = team.home / "own"
    team.submit("ben", "own", project="")
    own.mkdir()
    mine = [{**use[0], "path": str(own)}]
    assert check("ben", mine, "project vision")["write"] == [str(own)]
    with pytest.raises(UserError, match="belongs to another owner"):
        check("anna", mine, "project vision")


def test_a_project_goes_when_its_jobs_have_ended_and_they_stay_with_their_owners(team: Team) -> None:
    job = team.submit("anna", "a")
    with pytest.raises(UserError, match="1 of its jobs have not ended"):
        team.people["root"].remove_project("vision")
    team.people["anna"].act(job.id, "stop")
    team.people["root"].set_project_quota("vision", jobs=1)
    team.people["root"].remove_project("vision")
    assert team.access.quotas() == {} and team.people["root"].projects() == []
    assert team.seen("anna") == {job.id} and team.seen("ben") == set() == team.seen("carl")
    with pytest.raises(UserError, match="no such project"):
        team.people["anna"].act(job.id, "retry")


def test_a_schedule_submits_for_its_project_while_its_owner_is_a_member(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [*words(team.home, "s", 3), "name=s-@time"]
    special.add_schedule(JobsConfig(project="vision", every="*/5 * * * *"), team.people["anna"], "train", line)
    now = team.ledger.now()
    for minutes, trouble in ((6, ""), (12, "anna is no member of it")):
        monkeypatch.setattr(team.ledger, "now", lambda minutes=minutes: now + 60 * minutes)
        team.loop.schedules.look()
        assert trouble in team.loop.schedules.all()[0].trouble
        (job,) = team.ledger.jobs()
        assert job.project == "vision"
        if not trouble:
            team.people["anna"].act(job.id, "stop")
            team.people["carl"].remove_member("vision", "anna")
