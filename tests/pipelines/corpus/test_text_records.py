"""A block of text becomes records: normalised, not blank, not too long, each bad line counted or named."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.clean.block import load_facts, load_texts
from dragoman.pipelines.corpus.clean.task import CleaningTask, clean_block, cut
from dragoman.pipelines.corpus.read.records import encodings_of
from dragoman.pipelines.corpus.read.sources import Source, TextForm
from dragoman.pipelines.corpus.read.staging import blocks_of, stage, staging_tasks
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig

CLEAN = CleanConfig(max_chars=200, max_words=8)


def _cleaned(
    folder: Path,
    data: bytes,
    on_error: str = "raise",
    encodings: tuple[str, ...] = ("utf-8",),
    form: TextForm | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Records and facts."""
    file = folder / "text"
    file.write_bytes(data)
    source = Source("train-0", "train", "text", (file,), ("corpus.train.file",), form=form or TextForm())
    (staging,) = staging_tasks([source], folder)
    stage(staging)
    (block,) = blocks_of([source], folder)
    clean_block(CleaningTask(block, CLEAN, on_error, folder, encodings))  # type: ignore[arg-type]
    (texts,) = load_texts(folder, 0)
    return texts, load_facts(folder, 0)


def test_lines_become_records(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfone  two\r\n\r\n \tthree\xc2\xa0four \n" + b"w " * 20 + b"\nlast"
    records, facts = _cleaned(tmp_path, data)
    assert records == ["one two", "three four", "w w w w w w w w", "w w w w w w w w", "w w w w", "last"]
    assert facts["dropped"] == {"blank": 1}
    assert facts["changed"]["cut"] == 1
    assert (facts["records"], facts["characters"]) == (6, sum(map(len, records)))


def test_blank_lines_are_records_where_they_may_stay(tmp_path: Path) -> None:
    records, facts = _cleaned(tmp_path, b"one\n\n\xff\ntwo\n", "skip", form=TextForm(blank=True))
    assert records == ["one", "", "two"]
    assert facts["dropped"] == {"invalid_utf8": 1}


def test_paragraphs_become_records(tmp_path: Path) -> None:
    data = b"\n\na house\nand a\n  tree\n \nsecond\n\xff\nthird\n\n"
    records, facts = _cleaned(tmp_path, data, "skip", form=TextForm(paragraphs=True))
    assert records == ["a house and a tree", "second third"]
    assert facts["dropped"] == {"invalid_utf8": 1}


def test_lines_that_are_not_utf8_are_named_skipped_or_read_otherwise(tmp_path: Path) -> None:
    data = "plain\nnaïve\n".encode() + b"caf\xe9 \x92s\n"
    with pytest.raises(UserError, match=r"text: line 3: invalid UTF-8 at byte 4 of the line \(0xe9\).*on_error=skip"):
        _cleaned(tmp_path, data)
    records, facts = _cleaned(tmp_path, data, "skip")
    assert records == ["plain", "naïve"]
    assert facts["dropped"] == {"invalid_utf8": 1}
    (tmp_path / "000000.npz").unlink()
    records, facts = _cleaned(tmp_path, data, encodings=("utf-8", "cp1252"))
    assert records == ["plain", "naïve", "café ’s"]
    assert facts["changed"]["other_encoding"] == 1
    (tmp_path / "000000.npz").unlink()
    with pytest.raises(UserError, match="text: line 3: invalid UTF-8 and ASCII"):
        _cleaned(tmp_path, data, encodings=("utf-8", "ascii"))


@pytest.mark.parametrize("name", ["rot13", "nonsense", "utf-7"])
def test_encodings_whose_line_feed_is_another_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"corpus.encoding={name}: expected one that holds ASCII as it is"):
        encodings_of(CorpusConfig(encoding=name))
    assert encodings_of(CorpusConfig(encoding=["utf-8", "cp1252", "shift_jis"])) == ("utf-8", "cp1252", "shift_jis")


@pytest.mark.parametrize(
    ("text", "words", "chars", "pieces"),
    [
        ("a b c", 3, 0, ["a b c"]),
        ("a b c d e", 2, 0, ["a b", "c d", "e"]),
        ("aaaa bb cccccc", 0, 6, ["aaaa", "bb", "cccccc"]),
        ("aaaaaaaa bb", 0, 5, ["aaaaa", "aaa", "bb"]),
        ("aaaaa b", 0, 5, ["aaaaa", "b"]),
        ("a b c d", 0, 0, ["a b c d"]),
    ],
)
def test_long_texts_are_cut(text: str, words: int, chars: int, pieces: list[str]) -> None:
    assert list(cut(text, words, chars)) == pieces
