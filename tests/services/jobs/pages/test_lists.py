"""Search by field, CSV, presets, schedules, notices and the jobs that a job comes after, on the pages."""

import csv
import getpass
import io
import re
from typing import Any

import httpx
import pytest

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.filters import JobQuery
from dragoman.services.jobs.ledger.tables import Job, Notice
from dragoman.services.jobs.pages.listing import read_search
from dragoman.services.jobs.states import State
from tests.services.jobs.pages.test_pages import names
from tests.services.jobs.pages.world import OPTIONS, World, csrf


@pytest.fixture(scope="module")
def jobs(world: World) -> dict[str, Job]:
    return {
        "gru": world.job("gru-1", State.FAILED, words=["model=gru"], tags=["paper"]),
        "lstm": world.job("lstm-1", State.FAILED, owner="ben", tags=["paper", "nightly"]),
        "formula": world.job("=1+1", State.SUCCEEDED, words=['+note="a,b"']),
        "waits": world.job("waits"),
    }


@pytest.mark.parametrize(
    ("text", "fields", "rest"),
    [
        ("", {}, ""),
        ("two words", {}, "two words"),
        ("state:failed,lost tag:a x tag:b", {"state": ["failed", "lost"], "tag": ["a", "b"]}, "x"),
        ('name:"a b" "owner:anna" http://x', {"name": "a b"}, "owner:anna http://x"),
        ("lr=0.1 since:2d", {"since": "2d"}, "lr=0.1"),
    ],
)
def test_a_search_has_fields_and_words(text: str, fields: dict[str, Any], rest: str) -> None:
    assert read_search(text) == (JobQuery(**fields), rest)


@pytest.mark.parametrize("text", ["fruit:pear", "state:", "state:flying", "since:soon", "owner:a/b"])
def test_a_search_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=text.partition(":")[0]):
        read_search(text)[0].conditions(0.0)


def test_a_list_is_searched_by_field(browser: httpx.Client, jobs: dict[str, Job]) -> None:
    def found(query: str, **more: str) -> list[str]:
        return names(browser.get("/", params={"q": query, **more}).text.replace("<wbr>", ""))

    assert found("state:failed owner:anna model:gru") == ["gru-1"]
    assert found("tag:paper") == ["lstm-1", "gru-1"]
    assert found("tag:paper,nightly") == ["lstm-1"]
    assert found("name:*-1 gru") == ["gru-1"]
    assert found("since:1d state:waiting", state="waiting") == ["waits"]
    assert found("until:1d") == []
    wrong = browser.get("/", params={"q": "fruit:pear"})
    assert wrong.status_code == 400 and "&#39;fruit&#39; is not known" in wrong.text
    assert 'value="fruit:pear"' in wrong.text and len(names(wrong.text)) == len(jobs)  # beside the list
    assert browser.get("/jobs.csv", params={"q": "fruit:pear"}).status_code == 400


def test_a_list_is_exported_without_formulas(world: World, browser: httpx.Client, jobs: dict[str, Job]) -> None:
    answer = browser.get("/jobs.csv", params={"q": "state:succeeded"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert row["run"] == "'=1+1" and row["command"] == 'train name==1+1 model.dropout=0.1 +note="a,b"'
    assert (row["job"], row["owner"], row["state"]) == (jobs["formula"].id, "anna", "succeeded")
    hostile = ["=1", "+1", "-1", "@x", "\tx", "\rx"]
    odd = [world.job(f"odd-{number}", owner="o", tags=[name]) for number, name in enumerate(hostile)]
    rows = list(csv.DictReader(io.StringIO(browser.get("/jobs.csv?owner=o").text, newline="")))
    assert [one["tags"] for one in reversed(rows)] == [f"'{one}" for one in hostile]
    for job in odd:
        world.ledger.remove(world.ledger.change(job, State.STOPPED, "o", "over"), "o")


def test_the_form_is_kept_as_a_preset_and_filled_by_it(world: World, browser: httpx.Client) -> None:
    page = browser.get("/submit?verb=shard").text
    sent = {"csrf": csrf(page), "verb": "shard", "set.seed": "7", "more": "shards.shard_lines=2000", "do": "keep"}
    sent |= {"priority": "high", "tags": "a, b", "notify": "mailto:a@example.org", "retries": "2", "preset": "mine"}
    assert browser.post("/submit", data=sent).headers["location"] == "/submit?preset=mine"
    (preset,) = browser.get("/v1/presets", headers={"X-Dragoman-Owner": getpass.getuser()}).json()
    assert preset["words"] == [
        *("seed=7", "shards.shard_lines=2000", "jobs.priority=high", "jobs.retries=2"),
        *('jobs.tags=["a","b"]', 'jobs.notify=["mailto:a@example.org"]'),
    ]
    filled = browser.get("/submit?preset=mine").text
    for key, value in (("set.seed", "7"), ("tags", "a b"), ("notify", "mailto:a@example.org"), ("retries", "2")):
        assert f'name="{key}" value="{value}"' in filled, key
    assert "<option selected>high</option>" in filled
    assert browser.post("/submit", data={**sent, "preset": "a b"}).status_code == 400
    assert browser.post("/submit", data={**sent, "do": "forget"}).headers["location"] == "/submit"
    assert browser.get("/submit?preset=mine").status_code == 400


def test_schedules_are_listed_paused_resumed_and_removed_after_a_question(world: World, browser: httpx.Client) -> None:
    assert "Nothing is submitted again and again" in browser.get("/schedules").text
    one = world.loop.schedules.add(
        Person("anna", "submitter"), "0 3 * * *", "shard", ["seed=1"], {**OPTIONS, "project": "vision"}
    )
    page = browser.get("/schedules").text
    assert 'href="/?q=project:vision"' in page
    assert "shard seed=1" in re.sub("<wbr>", "", page) and "0 3 * * *" in page and "none yet" in page
    word = {"csrf": csrf(page)}

    def post(action: str) -> str:
        return browser.post(f"/schedules/{one.id}/{action}", data=word, follow_redirects=True).text

    assert "It is paused" in (paused := post("pause")) and ">Resume</button>" in paused
    found = world.loop.schedules.get(one.id)
    assert found is not None and found.due is None
    assert "It goes on" in post("resume")
    assert browser.post(f"/schedules/{one.id}/remove", data={}).status_code == 403
    assert "Remove this schedule?" in browser.get(f"/schedules/{one.id}/remove").text
    assert world.loop.schedules.get(one.id) is not None  # asking removes nothing
    assert "It is removed" in post("remove")
    assert world.loop.schedules.all() == []
    assert browser.post(f"/schedules/{one.id}/pause", data=word).status_code == 404


def test_a_job_shows_whom_it_told_and_whom_it_will_tell(world: World, browser: httpx.Client) -> None:
    job = world.job("tells", State.FAILED, notify=["https://hooks.example.org/secret"])
    before = browser.get(f"/jobs/{job.id}").text
    assert "Will be told: <bdi>https://hooks.example.org</bdi>" in before
    common = {"job": job.id, "attempt": 1, "target": job.notify[0], "owner": "anna", "verb": "train", "run": "x"}
    with world.ledger.database.write() as session:
        for event, due, sent, error in (
            ("failed", None, 1.9e9, ""),
            ("stuck", 1.9e9, None, "HTTP 503"),
            ("lost", None, None, "x"),
        ):
            more = {"event": event, "due": due, "sent": sent, "error": error, "text": "", "created": 1.9e9, "tries": 1}
            session.add(Notice(id=event, **common, **more))
    page = re.sub(r"<(wbr|/?time[^>]*|/?bdi)>", "", browser.get(f"/jobs/{job.id}").text)
    assert re.search(r"<td>failed</td><td class=\"num\">sent \w", page)
    assert re.search(r"<td>stuck</td><td class=\"num\">waits for try 2, \w", page) and "HTTP 503" in page
    assert re.search(r"<td>lost</td><td class=\"num\"><span class=\"state failed\">", page)
    assert "secret" not in page


def test_a_waiting_job_comes_after_others_never_after_itself(world: World, browser: httpx.Client) -> None:
    first, second, third = (world.job(f"chain-{number}") for number in range(3))
    word = csrf(browser.get(f"/jobs/{first.id}").text)

    def post(job: Job, after: str) -> httpx.Response:
        return browser.post(f"/jobs/{job.id}/after", data={"csrf": word, "after": after}, follow_redirects=True)

    assert "are changed" in post(second, "chain-0").text  # by the name of its run
    assert world.ledger.job(second.id).after == [first.id]
    assert "it comes after job" in browser.get(f"/v1/jobs/{second.id}/why").json()["text"]
    assert "are changed" in post(third, f"{second.id}, {first.id}").text
    failed = world.job("chain-failed", State.FAILED)
    for job, after in ((first, failed.id), (first, third.id), (first, first.id), (first, "nobody")):
        assert post(job, after).status_code == 400
    assert world.ledger.job(first.id).after == []
    assert post(third, "").status_code == 200
    assert (world.ledger.job(third.id).after, world.ledger.job(third.id).follows) == ([], False)
    assert post(world.job("begun", State.RUNNING), first.id).status_code == 409


def test_nobody_sees_or_names_what_is_another_owners(empty: World) -> None:
    tokens = empty.tokens(ben="submitter")
    annas, bens = empty.job("annas"), empty.job("bens", owner="ben")
    schedule = empty.loop.schedules.add(Person("anna", "submitter"), "0 3 * * *", "shard", ["seed=1"], OPTIONS)
    with empty.visit(tokens["ben"]) as client:
        word = csrf(client.get("/").text)
        for path in (
            "/",
            "/?q=owner:anna",
            "/?q=tag:x",
            "/schedules",
            "/recent.json",
            "/jobs.csv",
            "/submit?verb=shard",
        ):
            said = client.get(path).text
            assert annas.id not in said and "seed=1" not in re.sub("<wbr>", "", said), path
        assert bens.id in client.get("/recent.json").text
        assert client.get(f"/schedules/{schedule.id}/remove").status_code == 404
        assert client.post(f"/schedules/{schedule.id}/pause", data={"csrf": word}).status_code == 404
        for after in (annas.id, "annas"):
            answer = client.post(f"/jobs/{bens.id}/after", data={"csrf": word, "after": after})
            assert answer.status_code in (400, 404) and "anna's" not in answer.text
        assert client.get(f"/jobs/{annas.id}/log.txt").status_code == 404


def test_many_jobs_are_changed_at_once_and_what_cannot_be_is_said(empty: World) -> None:
    waits, done = empty.job("waits-for-more"), empty.job("is-done", State.SUCCEEDED)
    with empty.visit() as client:
        token = csrf(client.get("/").text)

        def change(do: str, **more: str) -> str:
            sent = {"csrf": token, "do": do, "job": [waits.id, done.id], "back": "?state=waiting", **more}
            answer = client.post("/jobs", data=sent)
            assert answer.url.query == b"state=waiting"
            return answer.text

        assert "2 jobs tagged." in change("tag", tag="paper")
        assert "1 job given another priority; not" in change("priority", priority="high")
        assert "1 job asked to stop; not" in change("stop")
        found = {job.id: job for job in empty.ledger.jobs()}
        assert [one.tags for one in found.values()] == [["paper"], ["paper"]]
        assert (found[waits.id].priority, found[waits.id].state) == (10, State.STOPPED)
        assert "2 jobs queued again." in change("retry")
        for mistake in ({"do": "eat"}, {"do": "tag", "tag": "two words"}):
            assert client.post("/jobs", data={"csrf": token, "job": waits.id, **mistake}).status_code == 400
        assert client.post("/jobs", data={"csrf": "x", "do": "stop", "job": waits.id}).status_code == 403


def test_jobs_are_sorted_by_their_score_and_a_curve_stands_beside_another(empty: World) -> None:
    found = [empty.job(f"run-{number}", State.SUCCEEDED) for number in range(3)]
    for job, score in zip(found, (31.5, None, 40.25), strict=True):
        empty.ledger.change(job, State.SUBMITTED, "anna", "again", score=score, metric="BLEU" if score else "")
    with empty.visit() as client:
        assert names(client.get("/?sort=-score").text) == ["run-2", "run-0", "run-1"]
        assert names(client.get("/?sort=score").text) == ["run-0", "run-2", "run-1"]
        with client.stream("GET", "/jobs.csv?sort=score") as answer:  # as the page's link asks for it
            assert len([line for line, _ in zip(answer.iter_lines(), range(9), strict=False)]) == 1 + len(found)
        listed = client.get("/v1/jobs", params={"sort": "-score"}).json()["jobs"]
        assert [one["score"] for one in listed] == [40.25, 31.5, None]
        first, _, last = found
        assert "run-2 (" not in client.get(f"/jobs/{first.id}").text
        beside = client.get(f"/jobs/{first.id}", params={"beside": last.id}).text
        assert f"run-2 ({last.id})" in beside.replace("<wbr>", "")
        assert "run-9 (" not in client.get(f"/jobs/{first.id}", params={"beside": "run-9"}).text
