"""The page at `/`: without script, its headers and sizes, texts that try to be more than text."""

import re

import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.keys import Keys
from dragoman.services.endpoint.page.routes import FOLDER
from tests.markup import HOSTILE, check_nothing_runs
from tests.services.endpoint.conftest import Client, Stage

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def post(stage: Stage, part: bool = False, **values: str) -> str:
    headers = BROWSER | ({"X-Part": "answer"} if part else {})
    form = {"source": "en", "target": "de", **values}
    return stage.client.request("POST", "/", data=form, headers=headers).text


def test_browsers_get_the_page_and_programs_what_they_got_before(stage: Stage) -> None:
    page = stage.client.request("GET", "/", headers=BROWSER)
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert {'value="en"', 'value="de"', 'value="auto"'} <= set(re.findall(r'value="\w+"', page.text))
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "default-src 'none'" in policy and "unsafe" not in policy
    assert "Accept" in page.headers["vary"].split(", ")
    programs = stage.client.get("/")
    assert (programs.status_code, programs.json()) == (404, {"error": "Not Found"})
    assert "/" not in stage.client.get("/spec").json()["paths"]


def test_the_form_without_script_brings_the_answer_and_where_it_is_from(stage: Stage) -> None:
    page = post(stage, q="One dog.\r\nSee {name}.")
    check_nothing_runs(page)
    assert ">ONE DOG.\nSEE {name}.</div>" in page
    assert "One dog.\nSee {name}.</textarea>" in page
    assert "ONE DOG.#1" in page and "Nothing was lost" in page and "<code>{name}</code>" in page
    assert re.search(r"<b>demo</b> · version 3.*run1.*abc", page, re.DOTALL)
    assert '<option value="en" data-targets="de" selected>' in page
    assert "Detected: English" in post(stage, q="The dog sleeps in the house.", source="auto")


def test_with_script_the_parts_come_alone(stage: Stage) -> None:
    part = post(stage, part=True, q="One dog.")
    assert part.lstrip().startswith('<div class="pane out">') and "<html" not in part and ">ONE DOG.</div>" in part


@pytest.mark.parametrize("part", [False, True])
def test_a_refusal_stands_beside_the_text_with_its_status(stage: Stage, part: bool) -> None:
    headers = BROWSER | ({"X-Part": "answer"} if part else {})
    form = {"source": "en", "target": "de", "q": "x" * 201}
    answer = stage.client.request("POST", "/", data=form, headers=headers)
    assert answer.status_code == 400
    assert 'role="alert">201 characters are too many; at most 200 are allowed' in answer.text
    assert part or "x" * 201 in answer.text  # nothing that was written is lost
    assert "q must be a string" in stage.client.request("POST", "/", json={**form, "q": ["a"]}, headers=headers).text


def test_a_key_is_asked_for_and_never_written_into_the_page(stage: Stage) -> None:
    assert 'name="api_key"' not in stage.client.request("GET", "/", headers=BROWSER).text
    stage.endpoint.keys = Keys(["secret-key"])
    assert 'name="api_key"' in stage.client.request("GET", "/", headers=BROWSER).text
    assert "ONE" not in post(stage, q="One.")
    page = post(stage, q="One.", api_key="secret-key")
    assert ">ONE.</div>" in page and "secret-key" not in page


def test_without_a_model_the_page_says_so_and_a_switch_takes_it_away(stage: Stage) -> None:
    stage.current[0] = None
    answer = stage.client.request("GET", "/", headers=BROWSER)
    assert answer.status_code == 503 and 'role="alert"' in answer.text and "<form" not in answer.text
    check_nothing_runs(answer.text)
    stage.endpoint.config.page = False
    without = Client(create_app(stage.endpoint))
    assert without.request("GET", "/", headers=BROWSER).status_code == 404
    assert without.get("/static/page.css").status_code == 404


def test_no_text_is_more_than_text(stage: Stage) -> None:
    stage.endpoint.config.check_language = False
    usual = set(check_nothing_runs(post(stage, q="a {b}")))
    for text in HOSTILE:
        if text.encode("utf-8", "ignore").decode() == text:  # the rest is no form
            assert set(check_nothing_runs(post(stage, q=f"a{text}b"))) <= usual, text


def test_the_files_are_small_and_may_be_kept_by_browsers(stage: Stage) -> None:
    page = stage.client.request("GET", "/", headers=BROWSER).text
    found = re.findall(r'(?:href|src)="(static/[^"]+)"', page)
    assert len(found) == 4
    for address in found:
        answer = stage.client.get(f"/{address}")
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
    assert sum(path.stat().st_size for path in (FOLDER / "static").iterdir()) < 60_000
