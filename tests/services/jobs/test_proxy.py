"""People whom an authenticating proxy lets in: by a header that counts only with the proxy's secret."""

import httpx
import pytest
from fastapi import Request

from dragoman.model.errors import UserError
from dragoman.services.jobs.http.guard import Proxy
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.settings import ProxyConfig
from tests.services.jobs.at_work import application, csrf
from tests.services.jobs.processes import words

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
SECRET = "s" * 40
NAME, GROUPS, PROOF = "X-Forwarded-User", "X-Forwarded-Groups", "X-Dragoman-Proxy-Secret"
ROLES = {"viewer": ["*"], "submitter": ["lab"], "admin": ["ops"]}
CONFIG = ProxyConfig(NAME, "FILE", domain="example.org", roles=ROLES)


def client(loop: Loop, config: ProxyConfig = CONFIG) -> httpx.Client:
    from fastapi.testclient import TestClient

    app = application(loop, True, proxy=Proxy(config, SECRET, loop.scheduler.access))
    return TestClient(app, base_url="http://jobs.example", follow_redirects=False)


def named(name: str = "anna@example.org", groups: str = "", secret: str = SECRET) -> dict[str, str]:
    return {NAME: name, GROUPS: groups, PROOF: secret}


def test_the_proxys_name_and_groups_are_an_owner_with_the_greatest_role(loop: Loop) -> None:
    with client(loop) as http:
        for groups, role in (("", "viewer"), ("lab", "submitter"), ("other, lab,ops", "admin"), ("labs", "viewer")):
            me = http.get("/v1/me", headers=named(groups=groups)).json()
            assert me == {"owner": "anna", "role": role, "teams": []}
            page = http.get("/", headers={**named(groups=groups), "Accept": "text/html"})
            assert page.status_code == 200 and "anna" in page.text and "Sign out" not in page.text


def test_the_header_without_the_secret_is_refused_everywhere(loop: Loop) -> None:
    wrong = [named(secret=secret) for secret in ("", SECRET.upper(), f"{SECRET} ", f"{SECRET}, {SECRET}")]
    with client(loop) as http:
        for headers in ({NAME: "anna@example.org"}, *wrong):
            for path in ("/v1/jobs", "/v1/me", "/", "/submit", "/live/jobs"):
                assert http.get(path, headers=headers).status_code == 401, (path, headers)
        token = loop.scheduler.access.issue("r", "root", "admin", "up")
        sent = {"Authorization": f"Bearer {token}"}
        assert http.get("/v1/me", headers=sent).json()["owner"] == "root"  # tokens go on
        assert http.get("/v1/me", headers={**sent, NAME: "anna@example.org"}).status_code == 401
        assert http.get("/v1/me", headers={PROOF: SECRET}).status_code == 401  # the secret names nobody
        assert http.get("/", headers={PROOF: SECRET}).headers["location"].startswith("/login")


def test_a_name_that_is_none_of_ours_is_refused(loop: Loop) -> None:
    wrong = ("", "@example.org", "../x@example.org", "a b@example.org", "scheduler@example.org", "anna@evil.example")
    with client(loop) as http:
        for name in wrong:
            assert http.get("/v1/me", headers=named(name)).status_code == 403, name
        twice = [*named().items(), (NAME, "root@example.org")]
        assert http.get("/v1/me", headers=twice).status_code == 403


def test_a_form_of_a_person_whom_the_proxy_names_needs_its_word(loop: Loop) -> None:
    job = loop.ledger.submit("anna", "train", words(loop.home, "a", 3))
    with client(loop) as http:
        headers = named(groups="lab")
        word = csrf(http.get(f"/jobs/{job.id}", headers=headers).text)
        assert http.post(f"/jobs/{job.id}/stop", data={"csrf": "x"}, headers=headers).status_code == 403
        assert (
            http.post(f"/jobs/{job.id}/stop", data={"csrf": word}, headers=named("ben@example.org")).status_code != 303
        )
        assert http.post(f"/jobs/{job.id}/stop", data={"csrf": word}, headers=headers).status_code == 303


def test_a_group_that_is_a_team_owns_what_its_people_submit_for_it(loop: Loop) -> None:
    config = ProxyConfig(NAME, "FILE", domain="example.org", roles=ROLES, teams=["vision"])
    body = {"verb": "train", "overrides": words(loop.home, "a", 3), "owner": "vision"}
    with client(loop, config) as http:
        anna, ben = named(groups="lab,vision"), named("ben@example.org", "lab,vision,other")
        dora = named("dora@example.org", "lab,other")
        assert http.get("/v1/me", headers=anna).json()["teams"] == ["vision"]
        job = http.post("/v1/jobs", json=body, headers=anna).json()
        assert job["owner"] == "vision"
        own = http.post("/v1/jobs", json={**body, "owner": None}, headers=anna).json()
        assert own["owner"] == "anna"
        assert [one["id"] for one in http.get("/v1/jobs", headers=ben).json()["jobs"]] == [job["id"]]
        assert http.post(f"/v1/jobs/{job['id']}/stop", json={}, headers=ben).status_code == 200
        assert http.get(f"/v1/jobs/{job['id']}", headers=dora).status_code == 404
        assert http.post("/v1/jobs", json=body, headers=dora).status_code == 400
        assert http.get("/v1/me", headers=named("vision@example.org")).status_code == 403  # no person has a team's name


def test_an_open_stream_ends_after_a_while_so_that_the_proxy_is_asked_again(loop: Loop) -> None:
    access = loop.scheduler.access
    proxy = Proxy(CONFIG, SECRET, access)
    headers = [(key.lower().encode(), text.encode()) for key, text in named().items()]
    request = Request({"type": "http", "headers": headers})
    person = proxy.person(request)
    assert person is not None and person.until is not None and access.admits(person)
    access.ledger.now = lambda: person.until or 0.0  # type: ignore[method-assign]
    assert not access.admits(person)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"header": NAME}, "service.proxy.secret"),
        ({"header": NAME, "secret": "FILE"}, "service.proxy.roles: nobody"),
        ({"header": NAME, "secret": "FILE", "roles": {"king": ["x"]}}, "service.proxy.roles"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, object], key: str) -> None:
    with pytest.raises(UserError, match=key):
        ProxyConfig(**values).check()  # type: ignore[arg-type]
