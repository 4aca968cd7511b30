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
