"""The audit: each change that is asked for and each refusal has its row, nobody reads another's, none is altered."""

import csv
import io
import logging
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, event, text, update
from sqlalchemy.exc import DBAPIError, OperationalError

from dragoman.model.errors import UserError
from dragoman.services.jobs.client.admin import audit
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.http import audit as middleware
from dragoman.services.jobs.ledger.asked import ASKED, RequestFacts
from dragoman.services.jobs.ledger.audit import Audit, AuditQuery
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import AuditRow
from dragoman.services.jobs.service.retention import DAY, PAGE, Retention
from dragoman.services.jobs.settings import KeepConfig
from dragoman.services.jobs.states import State
from tests.markup import HOSTILE, check_nothing_runs
from tests.services.jobs.at_work import sign_in
from tests.services.jobs.processes import words
from tests.services.jobs.test_own_tokens import Served, served

__all__ = ["served"]  # a fixture


def rows(served: Served, **wanted: Any) -> list[AuditRow]:
    return list(Audit(served.loop.ledger).rows(AuditQuery(**wanted), limit=500))


def last(served: Served, **wanted: Any) -> tuple[str, str, str, str, int, str]:
    one = rows(served, **wanted)[0]
    return one.person, one.token, one.method, one.resource, one.status, one.detail


@pytest.fixture
def browser(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.address) as client:
        yield client


def test_every_change_that_is_asked_for_says_who_whence_what_and_which_job_or_model(served: Served) -> None:
    anna, root = served.client(served.anna), served.client(served.root)
    secret = "not-for-the-audit"
    job = anna.submit("train", [*words(served.loop.home, "a", 3), "name=first", f"reason={secret}"], tags=[secret])
    assert last(served) == ("anna", "a", "POST", "/v1/jobs", 201, f"{job['id']} submitted: train name=first")
    promoted = anna.submit("promote", ["registry.name=demo", "promote.version=3", f"promote.reason={secret}"])["id"]
    assert last(served)[-1] == f"{promoted} submitted: promote registry.name=demo promote.version=3"
    path = f"/v1/jobs/{job['id']}"
    anna.act(job["id"], "priority", priority="high")
    assert last(served) == ("anna", "a", "POST", f"{path}/priority", 200, f"{job['id']} priority 10")
    root.act(job["id"], "stop")
    assert last(served) == ("root", "r", "POST", f"{path}/stop", 200, f"{job['id']} stopped")
    anna.remove(job["id"])
    assert last(served)[2:] == ("DELETE", path, 204, f"{job['id']} removed")
    root.give("demo", "ben")
    assert last(served)[2:] == ("PUT", "/v1/models/demo", 204, "gave demo to ben")
    root.set_quota("anna", 2)
    assert last(served)[2:] == ("PUT", "/v1/quotas/anna", 204, "cpus=2.0 gpus=None jobs=None")
    anna.keep_preset("nightly", "train", [f"name={secret}"])
    assert last(served)[2:] == ("PUT", "/v1/presets/nightly", 200, "")
    made = anna.make_token("laptop", role="viewer")
    assert last(served)[2:] == ("POST", "/v1/me/tokens", 201, "made laptop (viewer)")
    with pytest.raises(UserError):
        served.client(made).act(job["id"], "stop")
    assert last(served) == ("anna", "anna/laptop", "POST", f"{path}/stop", 403, "needs the role submitter")
    assert {one.address for one in rows(served)} == {"127.0.0.1"}
    before = len(rows(served))
    anna.me(), anna.jobs(), anna.plan("train", words(served.loop.home, "b", 3))
    assert len(rows(served)) == before  # nothing was changed
    with pytest.raises(UserError):  # neither here: but somebody tried
        anna.act(job["id"], "stop")
    assert last(served)[2:] == ("POST", f"{path}/stop", 404, "")
    array = anna.submit_array("train", [], [words(served.loop.home, f"r{n}", 3) for n in range(25)])
    detail = last(served)[-1]
    assert detail.startswith(f"{array[0]['id']} submitted: train") and detail.endswith("; and 5 more")
    stored = b"".join(one.read_bytes() for one in served.loop.home.glob("ledger.db*"))
    assert secret.encode() in stored  # it is the job's, and
    assert all(secret not in str(vars(one)) for one in rows(served))
    assert all(token not in str(vars(one)) for one in rows(served) for token in (made, served.anna, served.root))


def test_refusals_say_why_and_a_token_in_an_address_is_not_kept(served: Served) -> None:
    assert served.code("dgm_guessed") == 401
    assert last(served) == ("", "", "GET", "/v1/jobs", 401, "a valid bearer token is needed")
    ended = served.client(served.anna).make_token("old")
    served.client(served.anna).revoke_mine("old")
    assert served.code(ended) == 401
    assert last(served)[:2] == ("anna", "anna/old")  # whose it was
    assert served.code(served.anna, "/v1/tokens") == 403
    assert last(served) == ("anna", "a", "GET", "/v1/tokens", 403, "needs the role admin")
    foreign = {"Origin": "http://evil.example", "Authorization": f"Bearer {served.anna}"}
    assert httpx.post(f"{served.address}/v1/jobs", json={}, headers=foreign).status_code == 403
    assert last(served)[2:] == ("POST", "/v1/jobs", 403, "requests from pages of other origins are refused")
    assert served.code(served.anna, f"/v1/tokens/{served.root}/rotate", "POST", json={}) == 403
    assert last(served)[3] == "/v1/tokens/dgm_.../rotate"
    assert served.code(served.anna, f"/v1/jobs/x?token={served.root}", "DELETE") == 404
    assert last(served)[3] == "/v1/jobs/x"
    before = len(rows(served))
    for path in ("/nothing", "/v1/login", "/v1/login/token"):  # strangers who change nothing
        assert httpx.post(served.address + path, json={"secret": "x"}).status_code not in (401, 403)
    assert len(rows(served)) == before


def test_sign_ins_at_a_page_and_its_forms_are_there_too(served: Served, browser: httpx.Client) -> None:
    assert browser.post("/login", data={"token": "dgm_wrong"}).status_code == 401
    assert last(served) == ("", "", "POST", "/login", 401, "")
    word = sign_in(browser, served.anna)
    assert last(served) == ("anna", "a", "POST", "/login", 303, "")
    assert browser.post("/tokens", data={"csrf": "x", "name": "n"}).status_code == 403
    assert last(served)[:5] == ("anna", "a", "POST", "/tokens", 403)
    sent = {"csrf": word, "verb": "train", "more": "\n".join(words(served.loop.home, "p", 3))}
    form: dict[str, list[Any]] = {"groups": [], "general": [], "sections": []}
    served.loop.intake.planner.fields = lambda *_: form  # type: ignore[method-assign, assignment]  # as far as asked
    before = len(rows(served))
    for planned in ({"do": "plan"}, {"do": "plan", "more": "steps=none"}):  # after each field; changes nothing
        browser.post("/submit", data={**sent, **planned})
    assert len(rows(served)) == before
    served.client(served.anna).submit("train", words(served.loop.home, "q", 3), key="k")
    job = served.loop.ledger.jobs()[0].id
    assert browser.post(f"/jobs/{job}/stop", data={"csrf": word}).status_code == 303
    assert last(served)[2:] == ("POST", f"/jobs/{job}/stop", 303, f"{job} stopped")
    assert browser.post("/logout", data={"csrf": word}).status_code == 303
    assert last(served)[:5] == ("anna", "a", "POST", "/logout", 303)


def test_people_read_their_own_rows_and_an_admin_all_of_them(
    served: Served, browser: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    anna, ben, root = (served.client(one) for one in (served.anna, served.ben, served.root))
    for one in (anna, ben):
        one.submit("train", words(served.loop.home, "x", 3))
    for filters in ({}, {"person": "ben"}):
        assert {one["person"] for one in anna.every_audit_row(**filters)} == {"anna"}
    served.code("dgm_guessed")
    assert [one["person"] for one in root.every_audit_row()] == ["", "ben", "anna"]
    assert [one["person"] for one in root.every_audit_row(person="ben")] == ["ben"]
    assert [one["status"] for one in root.every_audit_row(status="4xx")] == [401]
    assert [one["status"] for one in root.every_audit_row(status="201", since="1h", what="submitted")] == [201, 201]
    assert list(root.every_audit_row(until="1h")) == list(root.every_audit_row(what="delete")) == []
    assert len(list(root.every_audit_row(what="post"))) == 2 and len(list(root.every_audit_row(1))) == 1
    audit(JobsConfig(), root, ["status=401"])
    assert re.search(r"unknown +- +127.0.0.1 +401 +GET /v1/jobs", capsys.readouterr().out)
    for mistake, said in [
        ("status=999", "status"),
        ("since=soon", "since=soon"),
        ("who=anna", "who"),
        ("anna", "KEY="),
    ]:
        with pytest.raises(UserError, match=said):
            audit(JobsConfig(), root, [mistake])
    sign_in(browser, served.anna)
    for path in ("/audit", "/audit?person=ben", "/audit.csv", "/audit.csv?person=ben"):
        assert "ben" not in browser.get(path).text.replace('value="ben"', "").replace("person=ben", "")
    assert "What was asked for in your name" in browser.get("/tokens").text
    sign_in(browser, served.root)
    assert "ben" in browser.get("/audit?person=ben&status=2xx").text
    assert browser.get("/audit?since=soon").status_code == 400
    assert browser.get("/audit.csv?status=abc").status_code == 400


def test_pages_of_rows_go_on_at_a_cursor(served: Served, browser: httpx.Client) -> None:
    kept = Audit(served.loop.ledger)
    for number in range(120):
        kept.add(200, person="ben", method="POST", resource=f"/v1/jobs/n{number}", detail=f"n{number}")
    root = served.client(served.root)
    first = root._json("GET", "/v1/audit", params={"limit": 50, "what": "n1"})
    assert len(first["rows"]) == 31 and first["next"] is None  # 1, 10 to 19, 100 to 119
    first = root._json("GET", "/v1/audit", params={"limit": 100})
    second = root._json("GET", "/v1/audit", params={"limit": 100, "cursor": first["next"]})
    assert [one["detail"] for one in first["rows"] + second["rows"]] == [f"n{n}" for n in reversed(range(120))]
    sign_in(browser, served.root)
    seen, path = [], "/audit?what=%2Fv1%2Fjobs%2Fn"
    while path:
        page = browser.get(path).text
        seen += re.findall(r"<bdi>(n\d+)</bdi>", page)
        older = re.search(r'href="(/audit\?[^"]*before=\d+)"', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert seen == [f"n{n}" for n in reversed(range(120))]


def test_a_page_and_a_file_of_hostile_texts_are_harmless(served: Served, browser: httpx.Client) -> None:
    kept = Audit(served.loop.ledger)
    odd = [*HOSTILE, "=1+1", "@cmd", "a\x00b", "\ud800", "x" * 5000]
    for one in odd:
        kept.add(403, person=one, token=one, address=one, method="POST", resource=one, detail=one)
    sign_in(browser, served.root)
    check_nothing_runs(browser.get("/audit").text)
    check_nothing_runs(browser.get("/audit", params={"what": HOSTILE[0], "person": HOSTILE[-1]}).text)
    table = list(csv.reader(io.StringIO(browser.get("/audit.csv", params={"status": "403"}).text)))
    assert len(table) == len(odd) + 1
    assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for row in table for cell in row)
    assert max(len(row[-1]) for row in table) == 2000


def test_strangers_do_not_fill_the_ledger(
    served: Served, monkeypatch: pytest.MonkeyPatch, browser: httpx.Client
) -> None:
    moment = time.monotonic()
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: moment)
        for _ in range(middleware.STRANGERS[1] + 30):
            assert browser.get("/v1/jobs").status_code == 401
        assert len(rows(served)) == middleware.STRANGERS[1]
        assert served.code(served.anna, "/v1/tokens") == 403  # a known person's rows are all there
        assert last(served)[0] == "anna"
        patched.setattr(time, "monotonic", lambda: moment + 5)
        assert browser.get("/v1/jobs").status_code == 401
    assert last(served)[-1] == "a valid bearer token is needed; 30 refusals before it are not listed"


def test_a_change_is_answered_though_its_row_cannot_be_kept(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("insert", {}, Exception("the disk is full"))

    monkeypatch.setattr(Audit, "add", away)
    with caplog.at_level(logging.ERROR):
        assert served.client(served.anna).submit("train", words(served.loop.home, "x", 3))["state"] == "submitted"
    assert "audit: POST /v1/jobs (201) has no row" in caplog.text


def test_a_client_that_left_and_an_error_of_ours_have_rows(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = served.client(served.anna).submit("train", words(served.loop.home, "x", 3))["id"]
    stop = served.loop.ledger.change

    def slowly(*given: Any, **more: Any) -> Any:
        time.sleep(1.0)
        return stop(*given, **more)

    monkeypatch.setattr(served.loop.ledger, "change", slowly)
    headers = {"Authorization": f"Bearer {served.anna}"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{served.address}/v1/jobs/{job}/stop", json={}, headers=headers, timeout=0.4)
    deadline = time.monotonic() + 20
    while last(served)[3] != f"/v1/jobs/{job}/stop" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert last(served) == ("anna", "a", "POST", f"/v1/jobs/{job}/stop", 200, f"{job} stopped")
    assert served.loop.ledger.job(job).state == State.STOPPED

    def broken(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(served.loop.ledger, "remove", broken)
    assert served.code(served.anna, f"/v1/jobs/{job}", "DELETE") == 500
    assert last(served)[2:] == ("DELETE", f"/v1/jobs/{job}", 500, "")


def test_a_row_is_never_altered_and_goes_when_it_is_old(ledger: Ledger, tmp_path: Path) -> None:
    kept, now = Audit(ledger), ledger.now()
    for days in (400, 366, 364, 0):
        ledger.now = lambda days=days: now - days * DAY  # type: ignore[misc]
        kept.add(200, person="anna", method="POST", resource=f"/{days}")
    with pytest.raises(DBAPIError, match="append-only"), ledger.database.write() as session:
        session.execute(update(AuditRow).values(person="ben"))
    Retention(ledger, KeepConfig(audit=0.0), tmp_path).forget()
    assert len(kept.rows(AuditQuery())) == 4
    Retention(ledger, KeepConfig(), tmp_path).forget()
    assert [one.resource for one in kept.rows(AuditQuery())] == ["/0", "/364"]
    with ledger.database.write() as session:
        newest = session.execute(text("SELECT max(id) FROM audit")).scalar_one()
    kept.forget(now + 1, PAGE)
    kept.add(200, resource="/next")
    assert kept.rows(AuditQuery())[0].id == newest + 1  # a cursor stays right


def test_requests_leave_nothing_to_each_other(served: Served) -> None:
    """The request that a thread works for is another one's later: no row has another's person or change."""
    from concurrent.futures import ThreadPoolExecutor

    tokens = {"anna": served.anna, "ben": served.ben}

    def submit(number: int) -> tuple[str, str]:
        owner = ("anna", "ben")[number % 2]
        body = {"verb": "train", "overrides": words(served.loop.home, f"{owner}-{number}", 3)}
        headers = {"Authorization": f"Bearer {tokens[owner]}"}
        return owner, httpx.post(f"{served.address}/v1/jobs", json=body, headers=headers, timeout=60).json()["id"]

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(submit, range(40)))
    found = {(one.person, one.detail.removesuffix(" submitted: train")) for one in rows(served)}
    assert found == made


def test_a_body_that_is_too_long_is_nobodys_and_has_no_row(served: Served) -> None:
    long = b"x" * (served.loop.config.body + 1)
    headers = {"Authorization": f"Bearer {served.anna}", "Content-Type": "application/json"}
    assert httpx.post(f"{served.address}/v1/jobs", content=long, headers=headers).status_code == 413
    assert rows(served) == []


def test_a_request_waits_for_the_disk_once_for_the_change_and_its_row(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/ledger.db")
    ledger, synced = Ledger(database), list[bool]()

    def committed(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("writes"):
            level = connection.exec_driver_sql("PRAGMA synchronous").scalar()
            synced.append(level == 2)  # FULL

    event.listen(database.engine, "commit", committed)
    token = ASKED.set(RequestFacts())
    try:
        ledger.submit("anna", "doctor", [])
        assert synced == [False]
        Audit(ledger).add(201, person="anna", method="POST", resource="/v1/jobs")
    finally:
        ASKED.reset(token)
    ledger.submit("anna", "doctor", [])  # of a schedule, which no row follows
    assert synced == [False, True, True]
    database.close()


def test_rows_of_one_moment_share_a_write(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/ledger.db")
    audit, commits = Audit(Ledger(database)), list[object]()
    with ThreadPoolExecutor(8) as pool:
        with database.write():  # the others wait for their turn
            event.listen(database.engine, "commit", commits.append)
            adding = [pool.submit(audit.add, 403, person=f"p{number}") for number in range(8)]
            while len(audit._coming) < 8:
                time.sleep(0.01)
        for one in adding:
            one.result()
    assert len(commits) == 1
    assert {row.person for row in audit.rows(AuditQuery())} == {f"p{number}" for number in range(8)}
    database.close()
