"""Tokens that people make for themselves: their rights, their end, and that nobody else learns them."""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from dragoman.model.errors import UserError
from dragoman.services.jobs.client.admin import tokens
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.service.loop import Loop
from tests.markup import HOSTILE, check_nothing_runs
from tests.services.jobs.at_work import listening
from tests.services.jobs.processes import words

DAY = 86_400.0
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Served:
    """A service that asks for tokens, on a port, with the tokens of root (admin), anna and ben (submitters)."""

    def __init__(self, loop: Loop, address: str) -> None:
        self.loop, self.address, self.access = loop, address, loop.scheduler.access
        self.opened = contextlib.ExitStack()
        self.root = self.access.issue("r", "root", "admin", "root")
        self.anna = self.access.issue("a", "anna", "submitter", "root")
        self.ben = self.access.issue("b", "ben", "submitter", "root")

    def client(self, token: str) -> JobClient:
        return self.opened.enter_context(JobClient(self.address, token))

    def code(self, token: str, path: str = "/v1/jobs", method: str = "GET", **more: object) -> int:
        return httpx.request(
            method, self.address + path, headers={"Authorization": f"Bearer {token}"}, **more
        ).status_code  # type: ignore[arg-type]


@pytest.fixture
def served(loop: Loop) -> Iterator[Served]:
    with listening(loop) as port:
        one = Served(loop, f"http://127.0.0.1:{port}")
        with one.opened:
            yield one


def later(served: Served, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(served.loop.ledger, "now", lambda: time.time() + seconds)


def test_a_token_of_ones_own_has_a_narrower_role_and_an_end(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    anna = served.client(served.anna)
    tokens(JobsConfig(), anna, ["create", "laptop", "ends=30d", "role=viewer"])
    made = capsys.readouterr().out.strip()
    assert served.code(made) == 200
    body = {"verb": "train", "overrides": words(served.loop.home, "x", 3)}
    assert served.code(made, "/v1/jobs", "POST", json=body) == 403
    assert served.code(served.anna, "/v1/jobs", "POST", json=body) == 201
    tokens(JobsConfig(), anna, [])
    told = capsys.readouterr().out
    assert "laptop" in told and "viewer" in told and made not in told
    one = anna.my_tokens()[0]
    assert one["expires"] - one["created"] == pytest.approx(30 * DAY, abs=5)
    assert one["used"] is not None
    later(served, monkeypatch, 31 * DAY)
    answer = httpx.get(f"{served.address}/v1/jobs", headers={"Authorization": f"Bearer {made}"})
    assert answer.status_code == 401
    assert re.search("token 'laptop' expired on 20", answer.json()["error"])
    page = httpx.post(f"{served.address}/login", content=f"token={made}", headers=FORM)
    assert page.status_code == 401 and "expired on" in page.text
    assert [row["name"] for row in anna.my_tokens()] == ["laptop"]  # it is seen that it has expired
    assert served.code(anna.make_token("laptop")) == 200  # and another may take its name


@pytest.mark.parametrize("role", ["admin", "metrics", "root", ""])
def test_nobody_gives_themselves_more_than_they_have(served: Served, role: str) -> None:
    for owner_token in (served.anna, served.client(served.anna).make_token("v", role="viewer")):
        answer = httpx.post(
            f"{served.address}/v1/me/tokens",
            json={"name": "more", "role": role},
            headers={"Authorization": f"Bearer {owner_token}"},
        )
        assert answer.status_code in (400, 422)
    assert [one["name"] for one in served.client(served.anna).my_tokens()] == ["v"]


@pytest.mark.parametrize("ends", ["0s", "2000-01-01", "367d", "2999-01-01", "never", "-1d", "1e9d", ""])
def test_an_end_that_is_none_is_refused(served: Served, ends: str) -> None:
    assert served.code(served.anna, "/v1/me/tokens", "POST", json={"name": "x", "ends": ends}) == 400
    assert served.client(served.anna).my_tokens() == []


def test_a_token_that_its_owner_made_makes_no_other(served: Served) -> None:
    """A stolen one ends when it ends."""
    own = served.client(served.client(served.root).make_token("mine", role="admin"))
    for make in (
        lambda: own.make_token("child"),
        lambda: own.issue("for-ever", "root", "admin"),
        lambda: own.rotate("a"),
    ):
        with pytest.raises(UserError, match="'mine' makes no other"):
            make()
    assert served.code(served.anna) == 200


def test_a_revoked_token_lets_in_no_more_at_once(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    anna = served.client(served.anna)
    made = anna.make_token("laptop", role="viewer")
    ended = {path: threading.Event() for path in ("/v1/events", "/live/jobs", "/live/cluster")}

    def read(path: str, client: httpx.Client) -> None:
        with contextlib.suppress(httpx.HTTPError), client.stream("GET", path, timeout=60) as answer:
            assert answer.status_code == 200
            for _ in answer.iter_bytes():
                pass
        ended[path].set()

    with httpx.Client(base_url=served.address, headers={"Authorization": f"Bearer {made}"}) as client:
        assert client.post("/login", content=f"token={made}", headers=FORM).status_code == 303
        readers = [threading.Thread(target=read, args=(path, client), daemon=True) for path in ended]
        for reader in readers:
            reader.start()
        time.sleep(1.0)
        assert not any(one.is_set() for one in ended.values())
        tokens(JobsConfig(), anna, ["revoke", "laptop"])
        assert "laptop: revoked" in capsys.readouterr().out
        assert client.get("/v1/jobs").status_code == 401
        assert client.get("/", headers={"Accept": "text/html"}).status_code == 303  # to the login
        for path, one in ended.items():
            assert one.wait(30), path
    with pytest.raises(UserError, match="none that is valid"):
        anna.revoke_mine("laptop")


def test_a_stream_ends_with_its_readers_token(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.services.jobs.http import streams

    monkeypatch.setattr(streams, "LOOK", 0.2)
    made = served.client(served.anna).make_token("short", ends="1d")
    with httpx.stream(
        "GET", f"{served.address}/v1/events", headers={"Authorization": f"Bearer {made}"}, timeout=60
    ) as answer:
        later(served, monkeypatch, 2 * DAY)
        assert [line for line in answer.iter_lines() if line.startswith("event: end")] == []


@pytest.mark.parametrize("how", ["revoke", "rotate", "replace"])
def test_it_ends_with_the_token_that_it_was_made_with(served: Served, how: str) -> None:
    secret = "s" * 40
    served.access.enter("file-submitter", "submitter", secret, "up")
    parent, name = (secret, "file-submitter") if how == "replace" else (served.anna, "a")
    made, other = served.client(parent).make_token("child"), served.client(served.ben).make_token("child")
    assert served.code(made) == 200
    if how == "replace":
        served.access.enter(name, "submitter", "t" * 40, "up")
    else:
        getattr(served.client(served.root), how)(name)
    assert (served.code(made), served.code(other)) == (401, 200)


def test_each_owner_has_their_own_names_and_an_admin_may_end_them(served: Served) -> None:
    anna, ben, root = (served.client(token) for token in (served.anna, served.ben, served.root))
    made = [one.make_token("laptop") for one in (anna, ben)]
    with pytest.raises(UserError, match="you have one of that name"):
        anna.make_token("laptop")
    for name in ("b", "../ben/laptop", "ben%2Flaptop", "r"):
        assert served.code(served.anna, f"/v1/me/tokens/{name}", "DELETE") in (400, 404, 405, 422), name
    assert served.code(served.anna, "/v1/tokens/ben/laptop", "DELETE") == 403
    assert {one["name"] for one in root.tokens()} >= {"anna/laptop", "ben/laptop"}
    root.revoke("ben/laptop")
    assert [served.code(token) for token in (*made, served.ben)] == [200, 401, 200]


def test_without_tokens_there_are_none_of_ones_own(loop: Loop) -> None:
    with listening(loop) as port:
        address = f"http://127.0.0.1:{port}"
        with JobClient(address, owner="anna") as anna, pytest.raises(UserError, match="dragoman token issue"):
            anna.make_token("first")
        assert "Nobody is asked for a token here" in httpx.get(f"{address}/tokens").text
        assert not loop.scheduler.access.issued


def test_a_token_is_nowhere_but_in_the_answer_that_made_it(
    served: Served, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with httpx.Client(base_url=served.address) as browser:
        browser.post("/login", content=f"token={served.anna}", headers=FORM)
        word = re.search(r'name="csrf" value="(\w+)"', browser.get("/tokens").text)[1]  # type: ignore[index]
        for missing in ({}, {"csrf": "wrong"}):
            assert (
                browser.post("/tokens", data={"name": "x", "role": "viewer", "ends": "1d", **missing}).status_code
                == 403
            )
        foreign = {"Origin": "http://evil.example"}
        sent = {"csrf": word, "name": "x", "role": "viewer", "ends": "1d"}
        assert browser.post("/tokens", data=sent, headers=foreign).status_code == 403
        answer = browser.post("/tokens", data=sent)
        assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
        made = re.search(r"dgm_[\w-]{40,}", answer.text)[0]  # type: ignore[index]
        assert made not in browser.get("/tokens").text
        for odd in (*HOSTILE, "../x", "a b", "x" * 99):
            refused = browser.post("/tokens", data={**sent, "name": odd.encode("utf-8", "ignore")})
            assert refused.status_code in (400, 422), odd
            check_nothing_runs(refused.text)
        assert browser.post("/tokens/revoke", data={"csrf": word, "name": "x"}).status_code == 303
        assert served.code(made) == 401
        again = browser.post("/tokens", data=sent)
        made = re.search(r"dgm_[\w-]{40,}", again.text)[0]  # type: ignore[index]
    for path in (f"/v1/jobs?token={made}", f"/v1/jobs?access_token={made}", f"/?token={made}", f"/tokens?token={made}"):
        assert httpx.get(served.address + path).status_code in (303, 401)
    assert "dragoman_session" not in httpx.get(f"{served.address}/login?token={made}").headers.get("set-cookie", "")
    stored = b"".join(path.read_bytes() for path in served.loop.home.glob("ledger.db*"))
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    written = "\n".join(ours) + "".join(capfd.readouterr())
    for token in (made, served.anna, served.root):
        assert token.encode() not in stored and token not in written
