"""Notes on a job's page, and comparisons that are kept under a name."""

import re

import httpx
import pytest

from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.states import State
from tests.services.jobs.pages.test_pages import names
from tests.services.jobs.pages.world import HOSTILE, World, csrf


@pytest.fixture(scope="module")
def jobs(world: World) -> list[Job]:
    return [world.job(f"run-{number}", State.SUCCEEDED) for number in range(3)]


def test_a_note_is_added_shown_escaped_found_and_removed(browser: httpx.Client, jobs: list[Job]) -> None:
    path = f"/jobs/{jobs[0].id}"
    word = csrf(browser.get(path).text)

    def post(action: str, **sent: str) -> httpx.Response:
        return browser.post(f"{path}/{action}", data={"csrf": word, **sent}, follow_redirects=True)

    page = post("note", text=f"good {HOSTILE}").text
    assert "The note is added" in page and f"good {HOSTILE}" not in page
    assert "good &lt;script&gt;" in page
    assert names(browser.get("/", params={"q": 'note:"good <"'}).text) == ["run-0"]
    assert names(browser.get("/", params={"q": "note:bad"}).text) == []
    number = re.search(r'name="note" value="(\d+)"', page)
    assert number is not None
    assert post("note", text=" ").status_code == 400 and post("note", text="x" * 2001).status_code == 400
    assert post("unnote", note="x").status_code == 400 and post("unnote", note="99").status_code == 400
    assert browser.post(f"{path}/note", data={"text": "forged"}).status_code == 403
    gone = post("unnote", note=number[1]).text
    assert "The note is removed" in gone and "good &lt;" not in gone


def test_a_comparison_is_kept_opened_noted_and_forgotten(world: World, browser: httpx.Client, jobs: list[Job]) -> None:
    ids = [job.id for job in jobs]
    page = browser.get("/compare", params={"job": ids}).text
    sent = {"csrf": csrf(page), "job": ids, "name": "best", "note": f"as {HOSTILE}"}
    kept = browser.post("/comparisons", data=sent, follow_redirects=True).text
    assert "The comparison is kept" in kept and "Compare 3 jobs" in kept and "as &lt;script&gt;" in kept
    assert 'href="/compare?kept=best"' in browser.get("/compare").text
    browser.post("/comparisons", data={**sent, "job": ids[:2], "note": "two"}, follow_redirects=True)
    again = browser.get("/compare?kept=best").text
    assert "Compare 2 jobs" in again and "two" in again  # in the place of the other
    world.ledger.remove(world.ledger.job(ids[1]), "anna")
    assert f"Removed since: {ids[1]}" in browser.get("/compare?kept=best").text
    for wrong in ({"name": "a b"}, {"name": ""}, {"job": []}, {"note": "x" * 2001}, {"job": ids * 3}):
        assert browser.post("/comparisons", data={**sent, "job": ids[:1], **wrong}).status_code == 400, wrong
    assert browser.post("/comparisons", data={**sent, "job": ["j-none"]}).status_code == 404
    assert browser.post("/comparisons", data={**sent, "csrf": "no"}).status_code == 403
    gone = browser.post("/comparisons/best/remove", data=sent, follow_redirects=True).text
    assert "is removed; its jobs stay" in gone and "kept=best" not in gone
    assert browser.get("/compare?kept=best").status_code == 400
