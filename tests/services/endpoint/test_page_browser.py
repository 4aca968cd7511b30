"""The page at `/` in the system's chromium: three widths, dark and light, words pointed at, one request a pause."""

import dataclasses
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import uvicorn

from model.alignment.attention_map import AttentionMap
from model.inference.translator import Translation
from model.settings import DecodeConfig
from services.endpoint.app import create_app
from services.models.loaded_model import LoadedModel
from services.models.origin import Origin
from tests.services.endpoint.conftest import Stage

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = {1440: "light", 768: "dark", 390: "light"}
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)")


class Mirrored:
    """An aligner: every word looked at the word in its own place, and a little at the first one."""

    def add_attention(self, lines: Sequence[str], answers: Sequence[Translation]) -> list[Translation]:
        return [
            dataclasses.replace(answer, attention=(self.one(line.split(), answer.text.split()),))
            for line, answer in zip(lines, answers, strict=True)
        ]

    def one(self, source: list[str], target: list[str]) -> AttentionMap:
        weights = 0.75 * np.eye(len(target) + 1, len(source) + 1, dtype=np.float32)
        weights[:, 0] += 0.25
        return AttentionMap((*source, "</s>"), (*target, "</s>"), weights, "mean", "output")


@pytest.fixture
def address(stage: Stage) -> Iterator[str]:
    aligner: Any = Mirrored()
    origin = Origin("demo", "3", "run1", "abc")
    stage.current[0] = LoadedModel(stage.translator, DecodeConfig(beam=4), origin, "en", "de", lambda: aligner)
    config = uvicorn.Config(create_app(stage.endpoint), port=0, log_config=None)
    server = uvicorn.Server(config)
    listening = config.bind_socket()
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join()
    listening.close()


def test_the_page_translates_after_a_pause_and_shows_what_words_looked_at(address: str, stage: Stage) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width, scheme in WIDTHS.items():
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            said: list[str] = []
            asked: list[str] = []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("pageerror", lambda problem, said=said: said.append(str(problem)))
            page.on("request", lambda one, asked=asked: asked.append(one.url) if one.method == "POST" else None)
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
            page.click("text=Python")
            assert '"q": "see my dog & cat"' in page.inner_text("#code")
            assert said == []  # neither errors nor breaches of the policy
            page.fill("#text", "x" * 201)
            page.keyboard.press("Control+Enter")
            page.wait_for_selector("#answer [role=alert]")
            assert "exceeds text limit" in page.inner_text("#answer")
            context.close()
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
            )  # axe is a script of another's
            page = context.new_page()
            page.goto(address)
            page.fill("#text", "see {name}")
            page.wait_for_selector("#translation")
            violations = Axe().run(page).response["violations"]
            assert [one["id"] for one in violations if one["impact"] in ("serious", "critical")] == [], width
            context.close()
        browser.close()


def test_a_newer_text_aborts_the_older_request(address: str, stage: Stage) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
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
        browser.close()
