"""Moses' n-best lists: what is read, what is written, what is refused by file and line."""

import pytest

from dragoman.model.errors import UserError
from dragoman.services.commands.nbest import read_entry, read_features, read_nbest

LINES = [
    "0 ||| the dog ||| LM0= -12.5 TM0= -1 -2 ||| -3.25 ||| 0-0 1-1",
    "0 ||| a dog ||| LM0= -13 TM0= -2 -2 ||| -4",
    "2 |||  ||| lm: -1 ||| -1",
]


def test_lists_are_read_with_their_features() -> None:
    first, second = read_nbest(LINES, "x")
    assert (first.number, second.number) == (0, 2)
    assert [entry.text for entry in first.entries] == ["the dog", "a dog"]
    assert first.entries[0].features == {"LM0": -12.5, "TM0_0": -1.0, "TM0_1": -2.0}
    assert (first.entries[0].score, first.entries[0].rest, first.entries[1].rest) == (-3.25, ("0-0 1-1",), ())
    assert (second.entries[0].text, second.entries[0].features) == ("", {"lm": -1.0})
    assert second.entries[0].place == "x, line 3"
    assert list(read_nbest([], "x")) == []


def test_our_feature_is_written_behind_theirs() -> None:
    number, entry = read_entry(LINES[0], "x")
    written = entry.line(number, {"Dragoman": -1.5}, 7)
    assert written == "0 ||| the dog ||| LM0= -12.5 TM0= -1 -2 Dragoman= -1.500000 ||| 7.000000 ||| 0-0 1-1\n"
    again = read_entry(written.rstrip("\n"), "x")[1]
    assert (again.features["Dragoman"], again.score) == (-1.5, 7.0)


def test_three_columns_are_a_score_or_features() -> None:
    _, scored = read_entry("4 ||| ja ||| -0.25", "x")
    assert (scored.score, scored.features) == (-0.25, {})
    _, unscored = read_entry("4 ||| ja ||| F= -0.25", "x")
    assert (unscored.score, unscored.features) == (None, {"F": -0.25})
    assert scored.line(4, {"Dragoman": -1}, -2).rstrip() == "4 ||| ja ||| Dragoman= -1.000000 ||| -2.000000"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "1 columns between"),
        ("0 ||| only two", "2 columns between"),
        ("one ||| x ||| F= 1 ||| 2", "the sentence's number is 'one'"),
        ("-1 ||| x ||| F= 1 ||| 2", "the sentence's number is '-1'"),
        ("0 ||| x ||| F= 1 ||| high", "the score is 'high'"),
        ("0 ||| x ||| F= 1 ||| nan", "the score is 'nan', not a finite number"),
        ("0 ||| x ||| F= -inf ||| 1", "the feature 'F' is '-inf'"),
        ("0 ||| x ||| F= one ||| 1", "the feature 'F' is 'one'"),
        ("0 ||| x ||| F= ||| 1", "the feature 'F' has no value"),
        ("0 ||| x ||| F= 1 F= 2 ||| 1", "the feature 'F' is given twice"),
        ("0 ||| x ||| -1 F= 2 ||| 1", "features begin with '-1'"),
    ],
)
def test_a_malformed_line_is_named(line: str, message: str) -> None:
    with pytest.raises(UserError, match=rf"lists\.gz, line 2: .*{message}"):
        list(read_nbest([LINES[0], line], "lists.gz"))


def test_lists_out_of_order_are_named() -> None:
    with pytest.raises(UserError, match="x, line 4: sentence 0 after sentence 2"):
        list(read_nbest([*LINES, LINES[0]], "x"))


def test_features_may_have_the_names_that_moses_gives() -> None:
    text = "LexicalReordering0= -1 0 Distortion0= 0 wt_a~b= 1"
    assert read_features(text, "x") == {
        "LexicalReordering0_0": -1.0,
        "LexicalReordering0_1": 0.0,
        "Distortion0": 0.0,
        "wt_a~b": 1.0,
    }
