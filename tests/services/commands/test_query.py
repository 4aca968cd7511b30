"""Questions to word vectors at the command line."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.conf.options import positional
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.inference.sentence_vectors import network_vectors
from dragoman.model.inference.words_in_context import uses_in
from dragoman.services.commands.query import main, query
from dragoman.services.models.vectors_source import QueryConfig


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
    with pytest.raises(UserError, match=r"'quen' is not among the 7 words.*'queen'.*on_error=skip"):
        run(vectors, capsys, "neighbours", "quen")
    out = run(vectors, capsys, "neighbours", "quen", "man", on_error="skip", format="json", k=1)
    first, second = map(json.loads, out.splitlines())
    assert first["words"] == ["quen"]
    assert "queen" in first["error"]
    assert second["word"] == "man"
    assert run(vectors, capsys, "neighbours", "quen", on_error="skip").startswith("quen\n  'quen' is not")


def test_mistakes_are_named(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.txt").write_bytes(b"man\n\xff\n")
    mistakes: list[tuple[list[str], dict[str, Any], str]] = [
        ([], {"input": str(tmp_path / "none.txt")}, r"input: .*none\.txt cannot be read"),
        ([], {"input": str(tmp_path / "in.txt")}, r"line 2: not UTF-8.*on_error=skip"),
    ]
    for words, settings, message in mistakes:
        with pytest.raises(UserError, match=message):
            run(vectors, capsys, "neighbours", *words, **settings)


def test_words_and_keys_stand_in_any_order_before_the_options() -> None:
    assert positional(["dog", "query.k=5", "cat", "--cfg", "job"]) == (["dog", "cat"], ["query.k=5", "--cfg", "job"])


def test_the_verbs_read_their_section(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"query.vectors={vectors}", "query.k=1"]
    assert main(["analogy", "man", "king", "woman", *words]) == 0
    assert "queen" in capsys.readouterr().out
    assert main(["neighbours", "quen", *words]) == 2
    assert "dragoman neighbours: 'quen' is not among" in capsys.readouterr().err


def test_the_neighbours_of_a_word_in_a_sentence(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["the dog sees the man .", "where is the dog ?", "the dog sees the man .", "", "the dogs"]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    settings = [f"query.vectors={bundle}", f"query.texts={tmp_path / 'texts.txt'}", "format=json"]
    assert main(["neighbours", "dog", "query.in=Where, is: the {dog} ?", *settings, "query.k=50"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["word"], found["sentence"], found["begin"], found["end"]) == ("dog", "Where, is: the {dog} ?", 16, 19)
    uses = found["neighbours"]
    assert len(uses) == 6 + 5 + 2  # a line that comes again counts once
    similarities = [one["similarity"] for one in uses]
    assert similarities == sorted(similarities, reverse=True)
    (dog,) = [one for one in uses if one["sentence"] == lines[0] and one["begin"] == 4]
    vectors = network_vectors(open_bundle(bundle))
    (one,), (other,) = (
        [found.vectors[row] for row, use in enumerate(found.words) if use.word == "dog"]
        for found in (uses_in(vectors, ["Where, is: the {dog} ?"]), uses_in(vectors, [lines[0]]))
    )
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    np.testing.assert_allclose(dog["similarity"], cosine, atol=1e-5)


def test_a_use_is_not_its_own_neighbour(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("where is the dog ?\nthe dog sees the man .\n")
    texts = str(tmp_path / "texts.txt")
    assert query("neighbours", QueryConfig(str(bundle), sentence="where is the dog ?", texts=texts, k=1), ["DOG"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "where is the [dog] ?"
    assert second.split()[0] in {"the", "dog", "sees", "man", ".", "where", "is", "?"}
    assert first not in second


LINES = ["the dog sees the man .", "where is the dog ?", "the dog", "the man sees the dog ?"]


def test_the_uses_of_a_word_are_drawn(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(LINES))
    settings = {"texts": str(tmp_path / "texts.txt"), "picture": str(tmp_path / "uses.png")}
    run(bundle, capsys, "neighbours", "Dog", sentence="where is the dog ?", k=1, **settings)
    assert (tmp_path / "uses.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_that_cannot_be_made_are_refused(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("the dog\n")
    good: dict[str, Any] = {"sentence": "the dog ?", "texts": str(tmp_path / "texts.txt")}
    picture = str(tmp_path / "uses.png")
    mistakes: list[tuple[str, dict[str, Any], str]] = [
        ("dog", {**good, "picture": "uses.gif"}, r"query\.picture: uses\.gif: unknown kind of file\. Choices: \.png"),
        ("dog", {**good, "picture": str(tmp_path / "none" / "a.png")}, r" cannot be written \(no such folder\)"),
        ("dog the", good, "shows the uses of one word, and the command line has dog, the"),
        ("dog", good, r"has 1 uses of 'dog' besides; a picture needs 3"),
        ("dog", {}, r"query\.picture: draws the uses of a word in a text; name it: query\.in="),
    ]
    for words, settings, message in mistakes:
        with pytest.raises(UserError, match=message):
            run(bundle, capsys, "neighbours", *words.split(), **{"picture": picture, **settings})
    assert not Path(picture).exists()


def test_mistakes_about_words_in_sentences_are_named(
    bundle: Path, vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("the dog\n")
    good: dict[str, Any] = {"sentence": "the dog ?", "texts": str(tmp_path / "texts.txt")}
    mistakes: list[tuple[Path, str, dict[str, Any], str]] = [
        (bundle, "neighbours cat", good, r"'cat' is not a word of 'the dog \?'\. Its words: the, dog, \?"),
        (vectors, "neighbours dog", good, "word vectors have no layers"),
        (bundle, "neighbours dog", {**good, "layer": 9}, r"query\.layer=9: the network has the layers 0"),
        (bundle, "neighbours dog", {"sentence": "the dog"}, r"query\.texts: null"),
        (bundle, "neighbours dog", {**good, "texts": "none.txt"}, r"query\.texts: none\.txt cannot be read"),
        (bundle, "neighbours dog", {**good, "texts": str(tmp_path)}, "is a directory without shards"),
        (bundle, "neighbours", {"sentence": "the dog"}, "name the word too"),
        (bundle, "analogy a b c", good, "an analogy is between words without a text"),
    ]
    for model, words, settings, message in mistakes:
        with pytest.raises(UserError, match=message):
            run(model, capsys, *words.split(), **settings)
