"""Lines in, translations out, without a server."""

import bz2
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.settings import DecodeConfig
from dragoman.services.commands import translate as verb
from dragoman.services.commands.translate import format_translation, translate, translate_lines
from dragoman.services.settings import TranslateConfig


def run(tmp_path: Path, bundle: Path, content: bytes, **settings: Any) -> str:
    (tmp_path / "in.txt").write_bytes(content)
    config = TranslateConfig(
        bundle=str(bundle), input=str(tmp_path / "in.txt"), output=str(tmp_path / "out.txt"), **settings
    )
    assert translate(config, DecodeConfig()) == 0
    return (tmp_path / "out.txt").read_text(encoding="utf-8")


def test_a_line_in_is_a_line_out_and_empty_lines_stay(tmp_path: Path, bundle: Path) -> None:
    lines = run(tmp_path, bundle, b"the dog\r\n\n  \na\xc2\x85b\xe2\x80\xa8c\nlast", lines=2).split("\n")
    assert len(lines) == 6
    assert lines[-1] == ""
    assert [bool(line.strip()) for line in lines[:5]] == [True, False, False, True, True]


def test_chunks_do_not_change_the_answers(tmp_path: Path, bundle: Path) -> None:
    content = b"the dog sees\nja\na house is old .\n"
    assert run(tmp_path, bundle, content, lines=1) == run(tmp_path, bundle, content, lines=256)


def test_nbest_lists_are_mosess_and_json_has_scores(tmp_path: Path, bundle: Path) -> None:
    rows = run(tmp_path, bundle, b"the dog\n\nja\n", format="nbest", nbest=2).splitlines()
    assert [row.split(" ||| ")[0] for row in rows] == ["0", "0", "1", "2", "2"]
    assert all(float(row.split(" ||| ")[2]) <= 0 for row in rows)
    records = [json.loads(row) for row in run(tmp_path, bundle, b"the dog\n", format="json", nbest=3).splitlines()]
    assert [record["source"] for record in records] == ["the dog"]
    assert [one["score"] for one in records[0]["nbest"]] == sorted(
        (one["score"] for one in records[0]["nbest"]), reverse=True
    )
    assert records[0]["text"] == records[0]["nbest"][0]["text"]


def test_an_output_that_cannot_be_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("ja\n")
    config = TranslateConfig(bundle="nowhere", input=str(tmp_path / "in.txt"), output=str(tmp_path / "out.npy"))
    with pytest.raises(UserError, match=r"output: .*out\.npy: lines of text are written"):
        translate(config, DecodeConfig())


def test_invalid_utf8_is_named_or_skipped(tmp_path: Path, bundle: Path) -> None:
    with pytest.raises(UserError, match=r"in\.txt, line 2: not UTF-8 \(byte 0xff at 1\)"):
        run(tmp_path, bundle, b"ok\nx\xff\n")
    assert not (tmp_path / "out.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    assert run(tmp_path, bundle, b"\xef\xbb\xbfok\nx\xff\n", on_error="skip").split("\n")[1:] == ["", ""]


def test_a_container_gives_the_lines_of_the_source_language(tmp_path: Path, bundle: Path) -> None:
    unit = '<tu><tuv xml:lang="de-DE"><seg>ein Hund</seg></tuv><tuv xml:lang="EN"><seg>the dog</seg></tuv></tu>'
    content = f'<?xml version="1.0"?><tmx version="1.4"><body>{unit * 3}</body></tmx>'.encode()
    assert run(tmp_path, bundle, content) == run(tmp_path, bundle, b"the dog\n" * 3)
    assert run(tmp_path, bundle, bz2.compress(b"the dog\n")) == run(tmp_path, bundle, b"the dog\n")


def test_what_is_lost_is_said(tmp_path: Path, bundle: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = run(
        tmp_path, bundle, b"the dog\n" + b"the dog sees " * 200 + "\n犬\n".encode(), format="json", protect=False
    ).splitlines()
    assert [json.loads(record)["truncated"] for record in records] == [False, True, False]
    assert [json.loads(record)["unknown"] > 0 for record in records] == [False, False, True]
    assert "lines that were cut to the model's positions and lost their end: 1; translate.split=true" in caplog.text
    assert "lines that have characters or words that the model's vocabulary has not got: 1" in caplog.text


def test_a_protected_line_is_not_cut_and_its_report_says_what_was_kept(tmp_path: Path, bundle: Path) -> None:
    content = b"the dog sees " * 50 + b"\nja {name} \xe7\x8a\xac\n"
    out = run(tmp_path, bundle, content, format="json", report=str(tmp_path / "report.jsonl"))
    records = [json.loads(line) for line in out.splitlines()]
    reports = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["truncated"] for record in records] == [False, False]
    assert reports[0]["long"] and reports[0]["complete"]
    assert [one["text"] for one in reports[1]["placeholders"]] == ["{name}"]
    assert "{name} 犬" in records[1]["text"]
    assert records[1]["report"] == {key: value for key, value in reports[1].items() if key != "line"}


def test_a_document_keeps_its_markup_and_a_glossary_its_terms(tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "terms.tsv").write_text("dog\tKöter\n", encoding="utf-8")
    content = b"<p>the dog</p><pre>the dog</pre>\n<p>Dog</p>"
    out = run(tmp_path, bundle, content, format="html", glossary=str(tmp_path / "terms.tsv"))
    assert out.endswith("</p><pre>the dog</pre>\n<p>Köter</p>")
    assert "Köter" in out.partition("</p>")[0]
    assert run(tmp_path, bundle, b"<!DOCTYPE html>\n<br>42", format="html") == "<!DOCTYPE html>\n<br>42"
    with pytest.raises(UserError, match=r"in\.txt: XML: mismatched tag \(line 1, column 10\)"):
        run(tmp_path, bundle, b"<p>the </q>", format="xml")
    with pytest.raises(UserError, match=r"translate\.glossary needs translate\.protect=true"):
        run(tmp_path, bundle, b"x\n", glossary="terms.tsv", protect=False)
    (tmp_path / "terms.tsv").write_text("dog\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"terms\.tsv, line 1: 'dog' has no two columns"):
        run(tmp_path, bundle, b"x\n", glossary=str(tmp_path / "terms.tsv"))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (gzip.compress(b"the dog\n", mtime=0), "gzip"),
        ("the dog\n".encode("utf-16"), "utf-16"),
    ],
)
def test_a_stream_of_another_kind_is_refused_and_its_advice_reads_it(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, what: str
) -> None:
    file = tmp_path / "stream"
    file.write_bytes(content)
    with file.open() as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", stream)
        with pytest.raises(UserError, match=f"standard input holds {what}.*input=FILE"):
            translate(TranslateConfig(bundle=str(bundle)), DecodeConfig())
    assert run(tmp_path, bundle, content) == run(
        tmp_path, bundle, b"the dog\nja\n" if b"\r" in content else b"the dog\n"
    )


def test_mistakes_are_named(tmp_path: Path, bundle: Path) -> None:
    there: dict[str, Any] = {"bundle": str(bundle), "input": str(bundle / "config.json")}
    for settings, message in (
        ({"input": str(tmp_path / "none.txt")}, r"none\.txt cannot be read"),
        ({"nbest": 9}, r"translate\.nbest: 9 is more than the search finds"),
        ({"output": str(tmp_path / "no" / "o")}, "cannot be written"),
    ):
        with pytest.raises(UserError, match=message):
            translate(TranslateConfig(**{**there, **settings}), DecodeConfig())


class Shouting:
    """A model of two alternatives a line."""

    source, target = "en", "de"

    def translate(self, lines: list[str], nbest: int) -> list[Translation]:
        found = [[Alternative(line.upper(), -1.0), Alternative(line, -3.0)][:nbest] for line in lines]
        return [Translation(one[0].text, one[0].score, one) for one in found]


def test_a_line_can_be_translated_sentence_by_sentence() -> None:
    served: Any = Shouting()
    answers = translate_lines(served, ["Go now.  See it!", ""], TranslateConfig(split=True, nbest=2))
    assert answers[0].nbest == [Alternative("GO NOW.  SEE IT!", -1.0), Alternative("Go now.  See it!", -3.0)]
    assert answers[1].text == ""


def test_a_translation_never_adds_a_line() -> None:
    assert format_translation(0, "x", Translation("a\nb\u2028c", 0.0), "text") == "a b c\n"


def test_standard_input_goes_to_standard_output(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the dog\n\n")))
    assert verb.translate(TranslateConfig(bundle=str(bundle)), DecodeConfig()) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 2
    assert err == ""
