"""Tokens and quotas: over REST for every role, and by the verbs of the command line."""

from pathlib import Path

import httpx
import pytest

from dragoman.model.errors import UserError
from dragoman.services.jobs.client.admin import quota, token
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.schemas import ChangeView
from dragoman.services.jobs.settings import JobsConfig
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import LOCAL, client
from tests.services.jobs.processes import bring, words

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
OF_SUBMITTERS = {
    ("POST", "/v1/plans"),
    ("POST", "/v1/jobs"),
    *(("POST", f"/v1/jobs/{{id}}/{verb}") for verb in ("stop", "yield", "retry", "priority", "after")),
    ("DELETE", "/v1/jobs/{id}"),
}
OF_ADMINS = {("PUT", "/v1/quotas/{owner}"), ("POST", "/v1/tokens")}
OF_ADMINS |= {("DELETE", "/v1/tokens/{name}"), ("POST", "/v1/tokens/{name}/rotate")}
OPEN = {("GET", "/status")}
STREAMS = {"/v1/events", "/v1/jobs/{id}/log-events"}  # of a job that has not ended they do not end
PAGES = ("/", "/tokens", "/jobs/{id}", "/jobs/{id}/log")


def service(http: httpx.Client) -> JobClient:
    found = JobClient(LOCAL)
    found.close()
    found._http = http
    return found


def test_every_route_asks_for_a_token_and_for_the_role_it_needs(loop: Loop) -> None:
    issue = loop.scheduler.access.issue
    admin = issue("r", "root", "admin", "root")
    tokens = {"viewer": issue("v", "anna", "viewer", "root"), "submitter": issue("s", "anna", "submitter", "root")}
    with client(loop, keys=True) as http:
        paths = http.get("/openapi.json").json()["paths"]
        routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
        routes = {route for route in routes if route[1] == "/status" or route[1].startswith("/v1/")}
        assert routes >= OF_SUBMITTERS | OF_ADMINS | OPEN
        assert (http.get("/status").status_code, http.get("/metrics").status_code) == (200, 401)
        for method, path in sorted(routes - OPEN - {("GET", "/v1/events")}):
            where = path.format(id="x", owner="anna", name="none")
            body = {"json": {}} if method in ("POST", "PUT") else {}

            def ask(key: str | None) -> int:
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                return http.request(method, where, headers=headers, **body).status_code  # noqa: B023  # asked at once

            least = ["submitter", "admin"] if (method, path) in OF_SUBMITTERS else ["viewer", "submitter", "admin"]
            least = ["admin"] if (method, path) in OF_ADMINS else least
            answers = {"viewer": ask(tokens["viewer"]), "submitter": ask(tokens["submitter"]), "admin": ask(admin)}
            assert ask(None) == 401, path
            assert ask("dgm_guessed") == 401, path
            assert {role for role, code in answers.items() if code not in (401, 403)} == set(least), (path, answers)


def test_the_first_token_is_an_admins_and_from_then_on_everybody_needs_one(
    loop: Loop, capsys: pytest.CaptureFixture[str]
) -> None:
    with client(loop, owner="root") as http:
        with pytest.raises(UserError, match="the first token must be an admin's"):
            token(JobsConfig(), service(http), ["issue", "laptop", "owner=anna"])
        token(JobsConfig(), service(http), ["issue", "mine", "owner=root", "role=admin"])
        key = capsys.readouterr().out.strip()
        with pytest.raises(UserError, match="a valid bearer token is needed"):
            token(JobsConfig(), service(http), [])
        http.headers["Authorization"] = f"Bearer {key}"
        token(JobsConfig(), service(http), ["issue", "laptop", "owner=anna"])
        of_anna = capsys.readouterr().out.strip()
        token(JobsConfig(), service(http), [])
        table = capsys.readouterr().out
        assert "laptop" in table and "submitter" in table
        assert key not in table and of_anna not in table
        with pytest.raises(UserError, match="the last of an admin"):
            token(JobsConfig(), service(http), ["revoke", "mine"])
        anna = loop.scheduler.access.person(of_anna)
        token(JobsConfig(), service(http), ["rotate", "laptop"])
        again = capsys.readouterr().out.strip()
        assert loop.scheduler.access.person(again) == anna and loop.scheduler.access.person(of_anna) is None
        with pytest.raises(UserError, match="none that is valid"):
            token(JobsConfig(), service(http), ["rotate", "nobody"])
        token(JobsConfig(), service(http), ["revoke", "laptop"])
        token(JobsConfig(), service(http), ["revoke", "mine"])
        del http.headers["Authorization"]
        assert http.get("/v1/jobs").status_code == 401  # nobody has a token, and so nobody is let in
    assert Access(loop.ledger).issued and not Access(loop.ledger).valid()  # nor after the next start
    stored = (loop.home / "ledger.db").read_bytes()
    for path in loop.home.glob("ledger.db*"):
        stored += path.read_bytes()
    assert key.encode() not in stored and of_anna.encode() not in stored


def test_quotas_are_set_and_listed_and_others_are_nobodys_business(
    loop: Loop, capsys: pytest.CaptureFixture[str]
) -> None:
    with client(loop, owner="root") as http:
        quota(JobsConfig(), service(http), ["anna", "cpus=2", "gpus=none"])
        quota(JobsConfig(), service(http), ["ben", "cpus=1.5"])
        assert "anna   2     no bound  no bound" in capsys.readouterr().out
        for mistake, said in [
            (["anna"], "whose and what"),
            (["cpus=1"], "whose and what"),
            (["x", "cpus=a"], "a number"),
        ]:
            with pytest.raises(UserError, match=said):
                quota(JobsConfig(), service(http), mistake)
        with pytest.raises(UserError, match="cpu"):
            quota(JobsConfig(), service(http), ["anna", "cpu=2"])
        access = loop.scheduler.access
        assert access.quotas() == {"anna": (2.0, None, None), "ben": (1.5, None, None)}
        access.issue("r", "root", "admin", "root")
        http.headers["Authorization"] = f"Bearer {access.issue('s', 'anna', 'submitter', 'root')}"
        assert [one["owner"] for one in http.get("/v1/quotas").json()] == ["anna"]


def test_a_token_ends_and_its_owner_may_be_a_team(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    access = loop.scheduler.access
    with pytest.raises(UserError, match="without an end first"):
        access.issue("r", "root", "admin", "up", "30d")
    root = access.issue("r", "root", "admin", "up")
    with pytest.raises(UserError, match="ends=1970-01-01: has passed"):
        access.issue("old", "lab", "viewer", "root", "1970-01-01")
    team = access.issue("ci", "lab", "submitter", "root", "30d")
    with client(loop, keys=True, token=team) as http:
        assert http.get("/v1/me").json() == {"owner": "lab", "role": "submitter", "teams": []}
        assert [one["name"] for one in http.get("/v1/tokens").json()] == ["ci"]
        body = {"verb": "train", "overrides": words(loop.home, "mine", 3)}
        assert http.post("/v1/jobs", json=body).json()["owner"] == "lab"
        refused = http.post("/v1/jobs", json={**body, "owner": "root"})
        assert (refused.status_code, refused.json()["error"]) == (400, "jobs.owner=root: you submit as lab")
        after = loop.ledger.now() + 31 * 86_400
        monkeypatch.setattr(loop.ledger, "now", lambda: after)
        answer = http.get("/v1/me")
        assert answer.status_code == 401 and "the token 'ci' expired on" in answer.json()["error"]
        http.headers["Authorization"] = f"Bearer {root}"
        assert http.post("/v1/jobs", json={**body, "owner": "anna"}).json()["owner"] == "anna"  # an admin's may


def test_whoever_may_not_see_an_owners_jobs_sees_the_owners_name_nowhere(loop: Loop) -> None:
    """On every route and page: the owner who holds the cluster is `bertold`, the admin who stopped a job `zelda`."""
    ledger, access = loop.ledger, loop.scheduler.access
    running = bring(ledger, ledger.submit("bertold", "train", words(Path("/x"), "bertold", 3)), State.RUNNING)
    held = ledger.end(running, State.WAITING, "lost", "vanished", "gone").id
    bring(ledger, ledger.job(held), State.RUNNING, 2)
    with ledger.database.write() as session:  # as a plan would: it holds the whole cluster
        session.get_one(Job, ledger.job(held).seq).cpus = 1.0
    access.set_quota("bertold", 8, None, "zelda")
    tokens = {role: access.issue(role, "zelda", role, "zelda") for role in ("admin", "metrics")}
    tokens |= {role: access.issue(role, "anna", role, "zelda") for role in ("viewer", "submitter")}
    with client(loop, keys=True) as http:

        def get(path: str, role: str) -> httpx.Response:
            http.cookies.clear()
            http.post("/login", data={"token": tokens[role]}, follow_redirects=False)
            return http.get(path, headers={"Authorization": f"Bearer {tokens[role]}"}, follow_redirects=False)

        body = {"verb": "train", "overrides": words(loop.home, "mine", 3)}
        ours = {"Authorization": f"Bearer {tokens['submitter']}"}
        waits, stopped = (http.post("/v1/jobs", json=body, headers=ours).json()["id"] for _ in range(2))
        loop._take()
        admins = {"Authorization": f"Bearer {tokens['admin']}"}
        assert http.post(f"/v1/jobs/{stopped}/stop", json={}, headers=admins).status_code == 200
        assert loop.capacity is not None
        loop.scheduler.look(loop.capacity)  # a pass that finds the cluster held
        paths = http.get("/openapi.json").json()["paths"]
        routes = [path for path, methods in paths.items() if "get" in methods and path not in STREAMS]
        asked = [path.format(id=id) for path in (*routes, "/metrics", *PAGES) for id in (waits, stopped)]
        for role in ("viewer", "submitter"):
            for path in asked:
                answer = get(path, role)
                assert answer.status_code == 200, (path, answer.text)
                assert "bertold" not in answer.text and "zelda" not in answer.text, (role, path)
        why = get(f"/v1/jobs/{waits}/why", "viewer").json()
        assert [(one["job"], one["owner"]) for one in why["holders"]] == [(held, "another owner")]
        assert 'dragoman_quota_used{owner="anna"' not in get("/metrics", "viewer").text  # nothing of hers runs
        for role in ("admin", "metrics"):
            assert 'dragoman_quota_limit{owner="bertold",resource="cpu"} 8.0' in get("/metrics", role).text
        assert get(f"/v1/jobs/{waits}/why", "admin").json()["holders"][0]["owner"] == "bertold"
        assert {get(path, "metrics").status_code for path in asked if path.startswith(("/v1/", "/jobs"))} == {403}
        events = ChangeView.shown(ledger.changes(job=stopped)[-1], Person("anna", "viewer"))
        assert (events.actor, events.reason) == ("another owner", "stopped by an admin")
