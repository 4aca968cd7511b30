"""Questions to word vectors at the command line."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from model.errors import UserError
from services.commands.query import QueryConfig, main, positional, query


def run(vectors: Path, capsys: pytest.CaptureFixture[str], verb: Any, *words: str, **settings: Any) -> str:
    assert query(verb, QueryConfig(vectors=str(vectors), **settings), words) == 0
    return capsys.readouterr().out


def test_neighbours_are_an_aligned_table(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(vectors, capsys, "neighbours", "queen", "man", k=2)
    assert out == "queen\n  woman   0.8165\n  king    0.8165\n\nman\n  woman   0.7071\n  king    0.7071\n"


def test_an_analogy_has_three_words(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(vectors, capsys, "analogy", "man", "king", "woman", k=1)
    assert out == "man : king = woman : ?\n  queen   0.9753\n"
    found = json.loads(run(vectors, capsys, "analogy", "man", "king", "woman", method="3cosmul", format="json", k=1))
    assert (found["method"], found["answers"][0]["word"]) == ("3cosmul", "queen")
    with pytest.raises(UserError, match=r"an analogy has three words.*there are 2"):
        run(vectors, capsys, "analogy", "man", "king")


def test_words_are_read_where_none_are_given(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("man king\n\ngröße\r\n".encode())))
    rows = run(vectors, capsys, "neighbours", format="json", k=1).splitlines()
    assert [json.loads(row)["word"] for row in rows] == ["man", "king", "größe"]
    (tmp_path / "in.txt").write_text("man king woman\nking man queen\n")
    rows = run(vectors, capsys, "analogy", format="json", k=1, input=str(tmp_path / "in.txt")).splitlines()
    assert [json.loads(row)["answers"][0]["word"] for row in rows] == ["queen", "woman"]


def test_an_unknown_word_is_named_or_skipped(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"'quen' is not among the 7 words.*'queen'.*query\.on_error=skip"):
        run(vectors, capsys, "neighbours", "quen")
    out = run(vectors, capsys, "neighbours", "quen", "man", on_error="skip", format="json", k=1)
    first, second = map(json.loads, out.splitlines())
    assert first["words"] == ["quen"]
    assert "queen" in first["error"]
    assert second["word"] == "man"
    assert run(vectors, capsys, "neighbours", "quen", on_error="skip").startswith("quen\n  'quen' is not")


def test_mistakes_are_named(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"query\.k=0"):
        run(vectors, capsys, "neighbours", "man", k=0)
    with pytest.raises(UserError, match=r"query\.input: .*none\.txt cannot be read"):
        run(vectors, capsys, "neighbours", input=str(tmp_path / "none.txt"))
    (tmp_path / "in.txt").write_bytes(b"man\n\xff\n")
    with pytest.raises(UserError, match=r"line 2: not UTF-8.*query\.on_error=skip"):
        run(vectors, capsys, "neighbours", input=str(tmp_path / "in.txt"))


def test_words_and_keys_stand_in_any_order_before_the_options() -> None:
    assert positional(["dog", "query.k=5", "cat", "--cfg", "job"]) == (["dog", "cat"], ["query.k=5", "--cfg", "job"])


def test_the_verbs_read_their_section(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"query.vectors={vectors}", "query.k=1"]
    assert main(["analogy", "man", "king", "woman", *words]) == 0
    assert "queen" in capsys.readouterr().out
    assert main(["neighbours", "quen", *words]) == 2
    assert "dragoman neighbours: 'quen' is not among" in capsys.readouterr().err
