"""Hostile Markdown: the work grows with its length, and what would grow faster is refused."""

import sys
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Translation
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import prepare

MARKDOWN = TextOptions(format="markdown")


def calls(text: str) -> int:
    """Returns how many functions are called to read a text."""
    count = 0

    def see(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        prepare(text, MARKDOWN, "en", 400, "de")
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "unit",
    [
        "![",
        "[",
        "[a][",
        "[a](",
        "*a _b ",
        "`a`` ",
        "<b>x ",
        "<b>x</b> ",
        "<a>",
        "![](b) ",
        "Go 5. ",
        "> ",
        "- a\n",
        "|a",
        "**a** ",
        "!!! note\n",
        "!!! note\n    a\n\n",
        "> !!! note\n",
    ],
)
def test_work_grows_with_the_length(unit: str) -> None:
    calls(unit * 20)  # what is loaded at first use
    short, long = (calls(unit * (length // len(unit))) for length in (600, 2400))
    assert long < 6 * short, "4 if it is linear, 16 if it is quadratic"
    assert long < 1300 * 2400


def test_a_table_that_fills_itself_up_is_refused() -> None:
    table = "|a" * 250 + "|\n" + "|-" * 250 + "|\n" + "|\n" * 250 + "\n"
    with pytest.raises(UserError, match="more than 200000 tokens"):
        prepare(table * 4, MARKDOWN, "en", 400, "de")


def test_links_inside_of_emphasis_are_still_links() -> None:
    (state,) = prepare("- > ***[the **dog**](a) ![the cat](b)***", MARKDOWN, "en", 400).states[:1]
    assert [tag.opening for tag in state.run.tags] == ["*", "**", "[", "**"]


def test_a_message_of_icu_in_markdown_is_translated_in_its_branches() -> None:
    prepared = prepare("The *cat* {n, plural, one {# **dog**} other {# dogs}} sees.", MARKDOWN, "en", 400, "de")
    while prepared.lines:
        prepared.take([Translation(line.upper(), 0.0) for line in prepared.lines])
    assert prepared.rebuild().text == "THE *CAT* {n, plural, one {# **DOG**} other {# DOGS}} SEES."
