"""Notes on jobs: over REST, at the command line, found again, and gone with their job."""

import json
from collections.abc import Callable

import pytest

from dragoman.conf import showing
from dragoman.services.jobs.ledger.notes import MOST
from dragoman.services.jobs.ledger.tables import Note
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import words
from tests.services.jobs.test_service import client

pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
Ask = Callable[..., int]


def test_notes_are_added_listed_found_and_removed_at_the_command_line(
    loop: Loop, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    job, other = (loop.ledger.submit("anna", "train", words(loop.home, name, 3)) for name in ("a", "b"))
    assert ask("note", job.id) == 0
    assert f"{job.id} has no notes" in capsys.readouterr().out
    assert ask("note", job.id, "lr=0.1 diverged") == 0
    assert "lr=0.1 diverged" in capsys.readouterr().out
    with showing.as_json():
        assert ask("note", job.id) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "lr=0.1 diverged"
    assert ask("jobs", "note=DIVERGED") == 0
    listed = capsys.readouterr().out
    assert job.id in listed and other.id not in listed
    assert ask("job", job.id) == 0
    assert "lr=0.1 diverged" in capsys.readouterr().out
    (note,) = loop_notes(loop, job.id)
    assert note["author"] == "anna" and note["text"] == "lr=0.1 diverged"
    assert ask("note", other.id, "rm", str(note["id"])) == 2
    assert f"job {other.id} has no note" in capsys.readouterr().err
    assert ask("note", job.id, "rm", str(note["id"])) == 0 and loop_notes(loop, job.id) == []
    for wrong in ((), (job.id, "a", "b"), (job.id, "rm")):
        assert ask("note", *wrong) == 2
    trail = [(one.actor, one.action, one.reason) for one in loop.ledger.changes(job=job.id) if one.action == "note"]
    assert trail == [("anna", "note", "added"), ("anna", "note", "removed")]  # the trail keeps no text


def loop_notes(loop: Loop, job: str) -> list[dict[str, object]]:
    with client(loop) as http:
        found: list[dict[str, object]] = http.get(f"/v1/jobs/{job}").json()["notes"]
    return found


def test_a_note_is_bounded_and_cleaned(loop: Loop) -> None:
    job = loop.ledger.submit("anna", "train", words(loop.home, "a", 3))
    with client(loop) as http:
        path = f"/v1/jobs/{job.id}/notes"
        assert http.post(path, json={"text": "  one\r\ntwo\x1b[31m\x00 "}).json()["text"] == "one\ntwo[31m"
        for text, status in (("", 422), (" \n ", 400), ("x" * 2001, 422)):
            assert http.post(path, json={"text": text}).status_code == status
        with loop.ledger.database.write() as session:
            session.add_all(Note(job=job.id, at=1e9, author="anna", text="more") for _ in range(1, MOST))
        assert "remove one first" in http.post(path, json={"text": "one more"}).json()["error"]


def test_only_who_sees_a_job_notes_it_and_only_its_author_or_an_admin_removes_it(loop: Loop) -> None:
    issue = loop.scheduler.access.issue
    root = issue("r", "root", "admin", "up")
    anna, ben = issue("a", "anna", "submitter", "root"), issue("b", "ben", "submitter", "root")
    viewer = issue("v", "anna", "viewer", "root")
    job = loop.ledger.submit("anna", "train", words(loop.home, "a", 3))
    path = f"/v1/jobs/{job.id}/notes"
    with client(loop, keys=True) as http:

        def ask(method: str, token: str, where: str = path, **body: object) -> int:
            return http.request(method, where, headers={"Authorization": f"Bearer {token}"}, **body).status_code  # type: ignore[arg-type]

        assert ask("POST", ben, json={"text": "x"}) == 404
        assert ask("POST", viewer, json={"text": "x"}) == 403
        assert ask("POST", root, json={"text": "look at this"}) == 201
        assert ask("POST", anna, json={"text": "I have"}) == 201
        found = http.get(f"/v1/jobs/{job.id}", headers={"Authorization": f"Bearer {viewer}"}).json()["notes"]
        assert [one["author"] for one in found] == ["another owner", "anna"]
        first, second = (f"{path}/{one['id']}" for one in found)
        assert ask("DELETE", ben, second) == 404
        assert ask("DELETE", anna, first) == 400
        assert ask("DELETE", anna, second) == 204
        assert ask("DELETE", root, first) == 204


def test_notes_go_with_their_job(loop: Loop) -> None:
    job = loop.ledger.submit("anna", "train", words(loop.home, "a", 3))
    with client(loop) as http:
        http.post(f"/v1/jobs/{job.id}/notes", json={"text": "soon gone"})
        loop.ledger.remove(loop.ledger.change(job, State.STOPPED, "anna", "over"), "anna")
        assert http.get("/v1/jobs", params={"note": "gone"}).json()["jobs"] == []
    assert "soon gone" not in json.dumps([one.reason for one in loop.ledger.changes()])
