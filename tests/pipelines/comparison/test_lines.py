"""Systems line by line: marks, filters and orders, read as text and in the system's chromium."""

import os
import re
import shutil
from pathlib import Path

import pytest

from dragoman.pipelines.comparison.lines import LONGEST, lines_of, mark
from dragoman.pipelines.comparison.page import Report, render
from dragoman.pipelines.comparison.table import Table
from dragoman.pipelines.evaluation.sets.read import HeldOutSet

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = "</td><script>alert(1)</script>\"' {{ x }} $body"
TABLE = Table([("system", "")], [[("old", "")]], {}, {})
NEWS = (
    HeldOutSet(
        "news",
        ["The dog runs.", "He does not sleep.", HOSTILE, "Same."],
        [("Der Hund läuft.", "Ein Hund läuft."), ("Er schläft nicht.",), ("Böse.",), ("Gleich.",)],
        ["law", "talks", "", "law"],
    ),
    {
        "old<1>": ["Der Hund rennt.", "Er schläft nicht.", HOSTILE, "Gleich."],
        "new": ["Der Hund läuft.", "Er schläft.", "Böse.", "Gleich."],
    },
)
SET = HeldOutSet("s", ["x"], [("y",)])
OTHER = HeldOutSet("other", ["A cat."], [("Eine Katze.",)]), {"old<1>": ["Ein Kater."], "new": ["Eine Katze."]}


def page(most: int = 500) -> str:
    return render(Report("t", "l", TABLE, [], lines=lines_of([NEWS, OTHER], ("en", "de"), most)))


def test_lines_that_differ_are_shown_the_largest_loss_first() -> None:
    found = lines_of([NEWS, OTHER], ("en", "de"))
    assert (found.differing, found.of) == (4, 5)
    assert (found.shown[0].number, found.shown[0].faults["negation"]) == (2, ["new"])
    differences = [line.difference for line in found.shown]
    assert differences == sorted(differences) and differences[0] < 0 < differences[1]
    fewer = lines_of([NEWS, OTHER], ("en", "de"), most=2)
    assert fewer.shown == [found.shown[0], found.shown[-1]]
    assert "4 of 5 lines differ; the 2 with the largest losses and gains are below" in page(2)


def test_a_line_is_scored_by_all_its_references() -> None:
    texts = {"a": ["Ein Hund läuft."], "b": ["Der Hund läuft."]}
    both = HeldOutSet("s", ["x"], [("Der Hund läuft.", "Ein Hund läuft.")])
    (line,) = lines_of([(both, texts)], ("en", "de")).shown
    assert line.scores == {"a": pytest.approx(100.0), "b": pytest.approx(100.0)}


@pytest.mark.parametrize(
    ("one", "other", "only"),
    [
        ("Der Hund läuft.", "Der Hund rennt.", ["läuft"]),
        ("Der alte Hund", "Der Hund", ["alte "]),
        ("我喜欢狗", "我喜欢猫", ["狗"]),
        ("gleich", "gleich", []),
        ("", "etwas", []),
    ],
)
def test_words_that_only_one_text_has_are_marked(one: str, other: str, only: list[str]) -> None:
    ours, theirs = mark(one, other)
    assert ["".join(text for _, text in parts) for parts in (ours, theirs)] == [one, other]
    assert [text for alone, text in ours if alone] == only


def test_texts_are_text_and_the_page_asks_for_nothing() -> None:
    text = page()
    assert "<script" not in text and "&lt;script&gt;" in text and "old&lt;1&gt;" in text
    assert "$body" in text and "{{ x }}" in text
    assert "Der Hund <del>rennt</del>." in text and "Der Hund <ins>läuft</ins>." in text
    assert not re.search(r"(src|href)=\"(?!#)", text) and "url(" not in text


def test_three_systems_are_marked_against_the_first() -> None:
    texts = {"a": ["Der Hund."], "b": ["Ein Hund."], "c": ["Der Hund."]}
    text = render(Report("t", "l", TABLE, [], lines=lines_of([(SET, texts)], ("en", "de"))))
    assert "<del>" not in text and text.count("<ins>") == 1 and "a system has and a has not" in text


def test_a_text_without_end_is_clipped_and_no_difference_leaves_the_section_out() -> None:
    texts = {"a": ["und " * 1000], "b": ["Hund"]}
    endless = lines_of([(SET, texts)], ("en", "de"))
    assert render(Report("t", "l", TABLE, [], lines=endless)).count("und ") < LONGEST
    same = lines_of([(SET, {"a": ["z"], "b": ["z"]})], ("en", "de"))
    assert 'id="lines"' not in render(Report("t", "l", TABLE, [], lines=same))


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)")
def test_in_a_browser_lines_are_filtered_and_ordered_without_script(tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    path = tmp_path / "lines.html"
    path.write_text(page(), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=180_000)
        for width, scheme in ((1440, "light"), (390, "dark")):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            context.set_default_timeout(180_000)
            shown = context.new_page()
            asked: list[str] = []
            shown.on("request", lambda request, asked=asked: asked.append(request.url))
            shown.goto(path.as_uri())
            assert asked == [path.as_uri()]
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            serious = [
                one["id"] for one in Axe().run(shown).response["violations"] if one["impact"] in ("serious", "critical")
            ]
            assert serious == []
            context.close()
        context = browser.new_context(java_script_enabled=False)
        shown = context.new_page()
        shown.goto(path.as_uri())

        def heads() -> list[str]:
            boxes = [(one.bounding_box(), one.inner_text()) for one in shown.locator(".line h3:visible").all()]
            return [
                text.partition(" ")[2].split("·")[0].strip()
                for _, text in sorted((box["y"], text) for box, text in boxes)
            ]  # type: ignore[index]  # visible ones have a box

        assert len(heads()) == 4 and heads()[0] == "news, line 2"
        shown.select_option("#order", "best")
        assert heads()[-1] == "news, line 2"
        shown.select_option("#order", "file")
        assert heads() == ["news, line 1", "news, line 2", "news, line 3", "other, line 1"]
        shown.select_option("#check", label="negation (1)")
        assert heads() == ["news, line 2"]
        shown.select_option("#check", label="all")
        shown.select_option("#set", label="other (1)")
        assert heads() == ["other, line 1"]
        shown.select_option("#domain", label="law (1)")
        assert heads() == []
        browser.close()
