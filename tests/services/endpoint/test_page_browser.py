"""The page at `/` in the system's chromium: three widths, dark and light, words pointed at, one request a pause."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.app import create_app
from dragoman.services.models.loaded_model import LoadedModel, Origin
from tests.services.endpoint.conftest import Stage
from tests.services.listening import CHROMIUM, serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)")


class Mirrored:
    """An aligner: every word looked at the word in its own place, and a little at the first one."""

    bytes = 0  # of a network

    def maps(self, lines: Sequence[str], _targets: Sequence[Sequence[int]]) -> list[AttentionMap]:
        return [self.one(line.split(), line.upper().split()) for line in lines]

    def one(self, source: list[str], target: list[str]) -> AttentionMap:
        weights = 0.75 * np.eye(len(target) + 1, len(source) + 1, dtype=np.float32)
        weights[:, 0] += 0.25
        return AttentionMap((*source, "</s>"), (*target, "</s>"), weights, "mean", "output")


@pytest.fixture
def address(stage: Stage) -> Iterator[str]:
    aligner: Any = Mirrored()
    origin = Origin("demo", "3", "run1", "abc")
    stage.current[0] = LoadedModel(stage.translator, DecodeConfig(beam=4), origin, "en", "de", lambda: aligner)
    with serving(create_app(stage.endpoint)) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def browser(chromium: Any) -> Iterator[Any]:
    """One for all tests; what a test opens is closed behind it."""
    yield chromium
    for context in chromium.contexts:
        context.close()


def heard(page: Any) -> list[str]:
    """Collects the errors of a page's script, and breaches of its policy."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda problem: said.append(str(problem)))
    return said


@pytest.mark.parametrize(
    ("width", "scheme"),
    [*(pytest.param(*wide, marks=pytest.mark.long) for wide in ((1440, "light"), (768, "dark"))), (390, "dark")],
)
def test_the_page_translates_after_a_pause_and_shows_what_words_looked_at(
    address: str, browser: Any, stage: Stage, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said = heard(page)
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if one.method == "POST" else None)
    page.goto(address)
    page.select_option("#source", "en")
    page.locator("#text").press_sequentially("see my dog & cat")
    page.wait_for_selector("#translation")
    assert page.inner_text("#translation") == "SEE MY DOG & CAT"
    assert asked == [address]  # one request a pause
    page.hover("#translation .word >> nth=1")
    page.wait_for_selector("#translation .word.at")
    assert page.inner_text("#looked") == "MY looked at: my 75 %, see 25 %"
    assert page.locator("#mirror .word.lit").all_text_contents() == ["see", "my"]
    box = page.locator("#mirror .word").nth(0).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("document.querySelector('#looked').textContent.startsWith('see was')")
    assert asked == [address, f"{address}translate"]  # the attention is asked for once
    page.focus("#translation")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#looked").startswith("SEE looked at")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("text=The same from a program")
    page.click("text=Python")
    assert '"q": "see my dog & cat"' in page.text_content("#code")
    assert said == []  # neither errors nor breaches of the policy
    page.fill("#text", "x" * 201)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#answer [role=alert]")
    assert "characters are too many" in page.inner_text("#answer")
    # axe is a script of another's
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(address)
    page.fill("#text", "see {name}")
    page.wait_for_selector("#translation")
    violations = Axe().run(page).response["violations"]
    assert [one["id"] for one in violations if one["impact"] in ("serious", "critical")] == []


def test_a_better_translation_is_kept_for_the_next_training(
    address: str, browser: Any, stage: Stage, tmp_path: Path
) -> None:
    page = browser.new_page()
    page.goto(address)
    page.fill("#text", "see")
    page.wait_for_selector("#translation")
    assert not page.is_visible("#better"), "the server keeps no suggestions"
    stage.endpoint.suggestions = tmp_path / "suggestions.jsonl"
    page.goto(address)
    page.select_option("#source", "en")
    page.fill("#text", "see")
    page.wait_for_selector("#translation")
    page.click("#better")
    page.keyboard.press("Control+A")
    page.keyboard.type("LOOK")
    with page.expect_request("**/suggest") as sent:
        page.click("#better")
    assert sent.value.post_data_json == {"q": "see", "s": "LOOK", "source": "en", "target": "de"}
    page.locator("#looked", has_text="Thank you").wait_for()
    assert json.loads(stage.endpoint.suggestions.read_text()) == {"en": "see", "de": "LOOK", "key": ""}


def test_a_newer_text_aborts_the_older_request(address: str, browser: Any, stage: Stage) -> None:
    page = browser.new_page()
    failed: list[str] = []
    page.on("requestfailed", lambda one: failed.append(str(one.failure)))
    page.goto(address)
    page.select_option("#source", "en")
    stage.translator.open.clear()
    with page.expect_request(lambda one: one.method == "POST"):
        page.fill("#text", "older")
    with page.expect_event("requestfailed"):
        page.fill("#text", "newer")
    stage.translator.open.set()
    page.wait_for_selector("#translation")
    deadline = time.monotonic() + 20
    while page.inner_text("#translation") != "NEWER":
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)
    assert len(failed) == 1


def shown(page: Any) -> str:
    found: list[str] = page.locator("#translation").all_inner_texts()
    return found[0] if found else ""


def until(page: Any, true: Callable[[], bool]) -> None:
    """Waits, without the functions of strings that the page's policy forbids."""
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)


def test_terms_alternatives_files_and_swap(address: str, browser: Any) -> None:
    page = browser.new_page()
    said = heard(page)
    page.goto(address)
    page.select_option("#source", "en")
    page.click("#glossary summary")
    page.fill("#terms", "dog = Köter")
    assert page.inner_text("#used").strip() == "· 1 term"
    page.fill("#text", "see my dog and the cat")
    page.wait_for_selector("#translation")
    assert page.inner_text("#translation") == "SEE MY Köter AND THE CAT"
    assert "Köter for dog" in page.inner_text(".facts")
    assert '"terms":"dog = Köter"' in page.text_content("#code")

    page.fill("#terms", "")
    until(page, lambda: shown(page) == "SEE MY DOG AND THE CAT")
    first = page.inner_text("#others button >> nth=0")
    page.click("#others button >> nth=0")
    assert shown(page) == first != "SEE MY DOG AND THE CAT"
    assert page.inner_text("#others button >> nth=0") == "SEE MY DOG AND THE CAT"

    drop = """(name) => {
        const files = new DataTransfer();
        files.items.add(new File(["<p>see <b>a man</b></p>"], name));
        document.querySelector("#text").dispatchEvent(
            new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(drop, "page.html")
    until(page, lambda: shown(page).startswith("<p>"))
    assert page.input_value("#format") == "html"
    assert page.inner_text("#translation") == "<p>SEE <b>A MAN</b></p>"
    page.set_input_files("#file", {"name": "a.md", "mimeType": "text/plain", "buffer": b"# See"})
    until(page, lambda: shown(page) == "# SEE")
    page.evaluate(drop, "a.docx")  # a document; this server takes none
    page.wait_for_selector("#answer [role=alert]")
    assert "disabled on this server" in page.inner_text("#answer")

    page.click("#swap")
    assert page.inner_text("#looked") == "No model translates from German."
    assert [line for line in said if "403" not in line] == []


def test_a_translated_document_is_offered(address: str, browser: Any) -> None:
    page = browser.new_page()
    done = {"translatedFileUrl": f"{address}download_file/x"}
    page.route("**/translate_file", lambda route: route.fulfill(json=done))
    page.goto(address)
    page.select_option("#source", "en")
    page.set_input_files("#file", {"name": "a.docx", "mimeType": "application/zip", "buffer": b"PK"})
    page.wait_for_selector(".translation a")
    assert page.get_attribute(".translation a", "href") == "/download_file/x"
    assert page.inner_text(".translation a") == "Download a.docx, translated"
