"""Texts as reports quote them."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.text.excerpt import LONGEST, excerpt


@given(st.text(st.characters(), max_size=3 * LONGEST))
def test_a_quoted_text_is_one_short_line_that_moves_no_cursor(text: str) -> None:
    shown = excerpt(text)
    assert len(shown) <= LONGEST
    assert all(one.isprintable() or one in "\u200c\u200d" for one in shown)


def test_what_is_short_and_printable_stays_as_it_is() -> None:
    for text in ("", "Übung, 語 क्\u200dष", "x" * LONGEST):
        assert excerpt(text) == text
    assert excerpt("x" * (LONGEST + 1)) == "x" * (LONGEST - 1) + "…"
    assert excerpt("a\x1b[2Jb\nc\u202ed") == "a [2Jb c d"
