"""Lines of every format become pairs; bad ones are named by file and line, or left out and counted."""

import json
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.read.records import Records, read_records
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import blocks_of, stage, staging_tasks
from dragoman.pipelines.corpus.settings import OnError


def _read(folder: Path, kind: str, *files: bytes, places: tuple[str, ...] = (), on_error: OnError = "raise") -> Records:
    paths = tuple(folder / f"file{number}" for number in range(len(files)))
    for path, data in zip(paths, files, strict=True):
        path.write_bytes(data)
    source = Source("train-0", "train", kind, paths, ("key", "key")[: len(files)], places)
    scratch = folder / "scratch"
    scratch.mkdir()
    for task in staging_tasks([source], scratch):
        stage(task)
    (block,) = blocks_of([source], scratch)
    return read_records(block, on_error)


def test_a_moses_pair_without_mark_and_carriage_returns(tmp_path: Path) -> None:
    records = _read(tmp_path, "moses", b"\xef\xbb\xbfone\r\ntwo\r\n", "eins\x85\u2028\nzwei".encode())
    assert records.source == ["one", "two"]
    assert records.target == ["eins\x85\u2028", "zwei"]


def test_a_carriage_return_without_line_feed_ends_the_last_line(tmp_path: Path) -> None:
    assert _read(tmp_path, "moses", b"one\r\ntwo\r", b"1\n2").source == ["one", "two"]


def test_a_tab_separated_file(tmp_path: Path) -> None:
    data = b"id\tHallo\tmore\tHi\n\nid\tJa\t\tYes\r\n"
    records = _read(tmp_path, "tsv", data, places=("3", "1"))
    assert (records.source, records.target) == (["Hi", "", "Yes"], ["Hallo", "", "Ja"])


def test_a_column_of_ids_is_refused_as_a_text(tmp_path: Path) -> None:
    rows = b"7\tHi\tHallo\n8\tYes\tJa\n9\tNo\tNein\n"
    with pytest.raises(UserError, match=r"column 1 of .*file0, read as the source, has only numbers \(7, 8, 9 "):
        _read(tmp_path, "tsv", rows, places=("0", "1"), on_error="skip")
    for folder, data in (("with_text", rows + b"one\tEins\t\n"), ("numbers", b"1\t1\n2\t2\n3\t3\n")):
        (tmp_path / folder).mkdir()
        assert _read(tmp_path / folder, "tsv", data, places=("0", "1")).source[2] in "93", "may well be texts"


def test_json_lines_by_dotted_field(tmp_path: Path) -> None:
    rows = [{"t": {"en": "a\nb", "de": "c"}}, {"t": {"en": "é", "de": "\u2028"}}]
    data = "\n".join(map(json.dumps, rows)).encode()
    records = _read(tmp_path, "jsonl", data, places=("t.en", "t.de"))
    assert (records.source, records.target) == (["a b", "é"], ["c", "\u2028"])


def test_invalid_utf8_is_named_by_file_line_and_byte(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"file1: line 2: invalid UTF-8 at byte 4 of the line \(0xff\)"):
        _read(tmp_path, "moses", b"one\ntwo\n", b"eins\nzwe\xffi\n")


def test_utf16_is_read_by_its_mark_and_named_without_one(tmp_path: Path) -> None:
    assert _read(tmp_path, "moses", "eins\nмир\n".encode("utf-16"), b"1\n2\n").source == ["eins", "мир"]
    (tmp_path / "bare").mkdir()
    with pytest.raises(UserError, match=r"file0: is no text: a binary file, or UTF-16 without its mark"):
        _read(tmp_path / "bare", "moses", "ab\n".encode("utf-16-le") * 2, b"1\n2\n")


def test_invalid_utf8_is_skipped_on_both_sides_and_counted(tmp_path: Path) -> None:
    records = _read(tmp_path, "moses", b"one\nt\xc3wo\nthree\n", b"eins\nzwei\n\xffdrei\n", on_error="skip")
    assert records.bad == {1: "invalid_utf8", 2: "invalid_utf8"}
    assert records.source == ["one", "", "three"]


@pytest.mark.parametrize(
    ("kind", "places", "line", "message"),
    [
        ("tsv", ("0", "1"), b"only one", r"file0: line 2: has 1 column\(s\)"),
        ("jsonl", ("a", "b"), b'{"a": ', r"file0: line 2: is no JSON"),
        ("jsonl", ("a", "b"), b'{"a": "x"}', r"line 2: has no field 'b'"),
        ("jsonl", ("a", "b"), b'{"a": "x", "b": 3}', r"line 2: field 'b' is no text but int"),
        ("jsonl", ("a", "b"), b"[1]", r"line 2: has no field 'a'"),
        ("jsonl", ("a", "b"), b"[" * 100_000, r"line 2: is no JSON"),
    ],
)
def test_malformed_rows_are_named_or_skipped(
    tmp_path: Path, kind: str, places: tuple[str, ...], line: bytes, message: str
) -> None:
    good = b'{"a": "x", "b": "y"}' if kind == "jsonl" else b"x\ty"
    data = good + b"\n" + line + b"\n" + good + b"\n"
    (tmp_path / "strict").mkdir()
    with pytest.raises(UserError, match=message):
        _read(tmp_path / "strict", kind, data, places=places)
    records = _read(tmp_path, kind, data, places=places, on_error="skip")
    assert records.bad == {1: "malformed"}
    assert records.source == ["x", "", "x"]


def test_nul_bytes_are_counted(tmp_path: Path) -> None:
    rest = b"x" * 300
    assert _read(tmp_path, "moses", b"a\0b\n" + rest, b"1\0\n" + rest).counts["nul"] == 2


@pytest.mark.parametrize(
    ("line", "latin"),
    [
        (b"K\xe4tze", True),
        (b"half \xed\xa0\xbd", False),
        (b"\x01\x02\xff", False),
        ("мир и собака".encode("cp1251"), False),
        ("これはペンです".encode("shift_jis"), False),
    ],
)
def test_latin_1_is_advised_for_what_may_be_latin_1(tmp_path: Path, line: bytes, latin: bool) -> None:
    with pytest.raises(UserError, match="on_error=skip") as refused:
        _read(tmp_path, "moses", b"a\n" + line, b"b\nc")
    assert ("latin-1" in str(refused.value)) == latin
