"""Projects on the command line and on the pages, and commands that work for every member."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.conf import showing
from dragoman.model.errors import UserError
from dragoman.services.jobs.client import admin, entries, verbs
from dragoman.services.jobs.client.admin import projects
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.planning.planner import RefusedPlanError
from dragoman.services.jobs.states import State
from tests.markup import check_nothing_runs
from tests.services.jobs.processes import StubPlanner, words
from tests.services.jobs.project_team import Team
from tests.services.jobs.test_own_tokens import FORM


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with contextlib.ExitStack() as stack:
        yield Team(tmp_path, stack)


def test_the_command_line_makes_shows_and_changes_projects(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    root, anna = team.people["root"], team.people["anna"]
    (team.home / "key").write_text(team.tokens["root"])
    service = [f"jobs.service={team.address}", f"jobs.key_file={team.home}/key"]
    assert entries.main(["quota", "anna", "jobs=3", *service]) == 0  # a bound here, elsewhere a section
    assert team.access.quotas() == {"anna": (None, None, 3)} and "anna" in capsys.readouterr().out
    assert entries.main(["projects", "create", "speech", "cpus=8", "gpus=0", "jobs=2", "group=/speech", *service]) == 0
    said = capsys.readouterr().out
    assert "0 of 8" in said and "0 of 2 run" in said and "/speech" in said
    projects(JobsConfig(), root, ["add", "speech", "dora", "role=maintainer"])
    assert re.search(r"dora +maintainer", capsys.readouterr().out)
    projects(JobsConfig(), team.people["dora"], ["show", "speech"])
    projects(JobsConfig(), team.people["dora"], ["remove", "speech", "dora"])
    projects(JobsConfig(), root, ["rm", "speech"])
    assert capsys.readouterr().out.endswith("dora: removed\nspeech: removed\n")
    with showing.as_json():
        projects(JobsConfig(), anna, [])
    assert json.loads(capsys.readouterr().out)["name"] == "vision"
    for wrong in (["make"], ["create"], ["quota", "vision"], ["add", "vision"], ["show", "vision", "cpus=1"]):
        with pytest.raises(UserError, match="say dragoman projects"):
            projects(JobsConfig(), root, wrong)
    with pytest.raises(UserError, match="colour"):
        projects(JobsConfig(), root, ["create", "x", "colour=red"])


def test_a_submission_of_a_client_with_a_project_is_the_projects(team: Team) -> None:
    """So it is for sweeps and lines, whose client has it of jobs.project."""
    config = JobsConfig(project="vision", key_file=str(team.home / "key"))
    (team.home / "key").write_text(team.tokens["anna"])
    with verbs.client(config, team.address) as client:
        made = [client.submit("train", words(team.home, "a", 3))]
        made += client.submit_array("train", words(team.home, "b", 3), [["seed=1"], ["seed=2"]])
        made += [client.submit("train", words(team.home, "c", 3), project="")]
    assert [one["project"] for one in made] == ["vision", "vision", "vision", ""]


@pytest.fixture
def browser(team: Team) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=team.address, headers={"Accept": "text/html"}, timeout=60) as client:
        yield client


def be(team: Team, browser: httpx.Client, who: str) -> str:
    browser.cookies.clear()
    assert browser.post("/login", content=f"token={team.tokens[who]}", headers=FORM).status_code == 303
    match = re.search(r'name="csrf" value="(\w+)"', browser.get("/tokens").text)
    assert match is not None
    return match[1]


def test_the_pages_show_a_project_and_change_it_as_far_as_one_may(team: Team, browser: httpx.Client) -> None:
    job, other = team.submit("anna", "a").id, team.submit("dora", "d", project="").id
    word = be(team, browser, "ben")
    for path in ("/", "/?q=project:vision", f"/jobs/{job}", "/jobs.csv", "/recent.json", "/?state=waiting"):
        text = browser.get(path).text
        assert job in text and other not in text, path
    assert "vision" in browser.get(f"/jobs/{job}").text
    assert "/stop" not in browser.get(f"/jobs/{job}").text.partition('class="actions"')[2]
    assert browser.post(f"/jobs/{job}/stop", data={"csrf": word}).status_code == 403
    page = browser.get("/projects").text
    assert "Leave" in page and "Add a member" not in page and "Set the quota" not in page
    assert (
        browser.post("/projects/vision/enter", data={"csrf": word, "owner": "x", "role": "member"}).status_code == 403
    )
    assert browser.post("/projects", data={"csrf": word, "name": "x"}).status_code == 403
    word = be(team, browser, "dora")
    assert "vision" not in browser.get("/projects").text and browser.get(f"/jobs/{job}").status_code == 404
    assert browser.post("/projects/vision/leave", data={"csrf": word, "owner": "dora"}).status_code == 404
    word = be(team, browser, "carl")
    sent = {"csrf": word, "owner": "emil", "role": "maintainer"}
    assert browser.post("/projects/vision/enter", data={**sent, "csrf": "x"}).status_code == 403
    assert browser.post("/projects/vision/enter", data={**sent, "owner": "<b>"}).status_code == 400
    assert browser.post("/projects/vision/enter", data=sent).headers["location"] == "/projects?done=enter"
    assert "emil" in browser.get("/projects?done=enter").text
    away = browser.post("/projects/vision/leave", data={"csrf": word, "owner": "emil"}, follow_redirects=True).text
    assert "They are no member any more." in away and "emil" not in away
    assert browser.post("/projects/vision/quota", data={"csrf": word, "jobs": "9"}).status_code == 403
    assert browser.post(f"/jobs/{job}/stop", data={"csrf": word}).status_code == 303
    word = be(team, browser, "root")
    assert browser.post("/projects", data={"csrf": word, "name": "new", "group": "<script>"}).status_code == 303
    check_nothing_runs(browser.get("/projects").text)
    assert browser.post("/projects", data={"csrf": word, "name": "a b"}).status_code == 400
    assert browser.post("/projects/new/quota", data={"csrf": word, "jobs": "two"}).status_code == 400
    assert browser.post("/projects/new/quota", data={"csrf": word, "jobs": "2", "cpus": ""}).status_code == 303
    assert team.access.quotas() == {"project new": (None, None, 2)}
    assert "Remove this project?" in browser.get("/projects/new/remove").text
    assert browser.post("/projects/new/remove", data={"csrf": word}).status_code == 303
    assert [one["name"] for one in team.people["root"].projects()] == ["vision"]


class RealPlanner(StubPlanner):
    """Plans of this process."""

    def plan(
        self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False, owner: str = ""
    ) -> dict[str, Any]:
        places: list[dict[str, str]] = []
        try:
            return make_plan(verb, words, [Path(root) for root in self.roots], gpus, early, None, (), places)
        except UserError as problem:
            raise RefusedPlanError(str(problem), places) from None


def test_the_same_commands_work_for_every_member_and_for_another_project(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of somebody with one project is the project's; the second project has folders and a model of its own."""
    monkeypatch.setenv("DRAGOMAN_HOME", str(team.home))
    team.loop.intake.planner = RealPlanner(team.home)  # type: ignore[assignment]  # as far as it is asked
    root, home = team.people["root"], team.home.resolve()
    root.create_project("other")
    root.add_member("other", "dora")

    def submit(who: str, verb: str, *after: str) -> Job:
        job = team.people[who].submit(verb, ["corpus=phrasebook"], after=after)
        team.loop._take()
        return team.ledger.job(job["id"])

    shards, own = home / "shards" / "phrasebook-en-de-bpe", home / "shards" / "other" / "phrasebook-en-de-bpe"
    for who in ("anna", "ben"):
        job = submit(who, "shard")
        assert (job.state, job.project, job.run) == (State.WAITING, "vision", f"shards {shards}"), job.reason
    job = submit("dora", "shard")
    assert (job.state, job.project, job.run) == (State.WAITING, "other", f"shards {own}"), job.reason
    first = submit("anna", "train", team.ledger.jobs(ascending=True)[0].id)
    assert (first.state, first.model) == (State.WAITING, "phrasebook-en-de"), first.reason
    later = submit("dora", "train", job.id)
    assert (later.state, later.model) == (State.WAITING, "other-phrasebook-en-de"), later.reason
    assert f"paths.shards={own}" in (later.plan or {})["words"]
    assert later.run == f"run {home}/runs/other/{first.run.removeprefix('run ')}"


def test_members_give_their_shards_runs_and_models_to_the_project_and_admins_to_anybody(team: Team) -> None:
    run = team.home / "runs" / "mine"
    team.submit("anna", "runs/mine", project="", model="m")
    run.mkdir(parents=True)
    places = team.loop.intake.places
    for who in ("ben", "dora"):
        with pytest.raises(UserError, match="an admin gives it away"):
            team.people[who].give("runs/mine", project="vision")
    for mistake in ("runs/../service", "runs/none"):
        with pytest.raises(UserError):
            team.people["root"].give(mistake, project="vision")
    admin.owner(JobsConfig(), team.people["anna"], ["runs/mine", "project=vision"])
    assert places.owner(str(run)) == "project vision"
    team.people["anna"].give("m", project="vision")
    assert team.loop.intake.ownership.names.owner("m") == "project vision"
    team.people["root"].give("runs/mine", "dora")
    assert places.owner(str(run)) == "dora"
