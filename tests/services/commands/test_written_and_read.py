"""What a verb writes its own readers read back, whatever stands in the texts."""

import contextlib
import io
import json
import os
import pty
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.shards.manifest import Manifest, Split, write_manifest
from dragoman.model.shards.writer import write_shard
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.formats import Format, write_format
from dragoman.pipelines.config import PathsConfig
from dragoman.pipelines.unpack import UnpackConfig, UnpackRoot
from dragoman.pipelines.unpack import task as unpack
from dragoman.services.commands.lines import ESCAPED_BAR, flat, open_input, open_output, read_lines
from dragoman.services.commands.nbest import Entry, read_nbest
from dragoman.services.commands.translate import format_translation
from tests import vector_files

HARD = st.sampled_from(
    ["|||", "||", " ||| 0 ||| ", "\n", "\r", "\x85", "\u2028", "\t", "\x1b[2J", "\x00", '"', "\\", "&", "<", "\u202e"]
)
TEXTS = st.lists(st.one_of(HARD, st.text(st.characters(codec="utf-8"), max_size=5)), max_size=6).map("".join)

FOLDER = Path()


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    global FOLDER  # hypothesis calls a test many times with one fixture
    FOLDER = tmp_path_factory.mktemp("written")


def lines_of(written: str) -> list[str | None]:
    return list(read_lines(io.BytesIO(written.encode()), "f", "raise"))


def answer(text: str) -> Translation:
    return Translation(text, -1.0, [Alternative(text, -1.0, -2.0), Alternative("x", -3.0, -4.0)])


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS)
def test_a_translation_is_one_line_of_text_and_of_json(source: str, text: str) -> None:
    assert lines_of(format_translation(0, source, answer(text), "text")) == [flat(text)]
    written = format_translation(0, source, answer(text), "json")
    (line,) = written.split("\n")[:-1]
    record = json.loads(line)
    assert record["source"] == source and record["text"] == text and record["nbest"][0]["text"] == text


@settings(max_examples=40, deadline=None)
@given(TEXTS.filter(lambda text: ESCAPED_BAR not in text))
def test_a_list_is_read_back_by_rerank(text: str) -> None:
    written = format_translation(7, "source", answer(text), "nbest")
    (found,) = read_nbest(lines_of(written), "f")
    assert found.number == 7
    assert [entry.text for entry in found.entries] == [flat(text).strip(), "x"]
    assert [entry.score for entry in found.entries] == [-1.0, -3.0]
    (again,) = read_nbest(lines_of(Entry("p", text, {}, "A= 1").line(3, {"B": 2.0}, 0.5)), "f")
    (entry,) = again.entries
    assert entry.text == flat(text).strip() and entry.features == {"A": 1.0, "B": 2.0} and entry.score == 0.5


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), min_size=1, max_size=5, unique=True))
def test_vector_files_are_read_back_or_refused(words: list[str]) -> None:
    vectors = np.arange(2 * len(words), dtype=np.float32).reshape(-1, 2) + 1
    readers: list[tuple[Format, Any]] = [("text", vector_files.text), ("binary", vector_files.binary)]
    for name, read in readers:
        try:
            path = write_format(FOLDER, name, Embeddings(words, None, vectors))
        except UserError as problem:  # a word with a blank in it has no place in such a file
            assert any(word.split() != [word] for word in words), problem
            continue
        found, rows = read(path)
        assert found == words
        assert np.array_equal(rows, vectors)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_an_unpacked_record_is_one_line(pairs: list[tuple[str, str]]) -> None:
    sides = [["a" + source for source, _ in pairs], ["b" + target for _, target in pairs]]
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = Path(name)
        tokenizers = train_pair(TokenizerConfig(type="characters"), *sides)
        tokenizers.save(folder)
        records = list(zip(tokenizers.source.encode(sides[0]), tokenizers.target.encode(sides[1]), strict=True))
        entries = [write_shard(folder, "train", 0, records, 0, 8, "<u2")]
        write_manifest(
            folder, Manifest("toy", ["en", "de"], tokenizers.describe(), "<u2", {"train": Split.of(entries)})
        )
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert unpack(UnpackRoot(PathsConfig(shards=str(folder)), UnpackConfig())) == 0
    rows = [row.split("\t") for row in out.getvalue().split("\n")[:-1]]
    assert [len(row) for row in rows] == [2] * len(pairs)
    assert not set("".join("".join(row) for row in rows)) & set("\t\r\n")


def test_an_output_that_is_a_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"output: .* is a folder; name a file in it"):
        open_output(str(tmp_path)).__enter__()
    assert not list(tmp_path.iterdir())


def test_only_a_person_at_the_keyboard_is_told_that_it_is_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    ours, theirs = pty.openpty()
    with io.TextIOWrapper(io.BytesIO(b"piped\n")) as pipe, os.fdopen(theirs, encoding="utf-8") as keyboard:
        for stream, said in ((pipe, ""), (keyboard, "reads the keyboard, a text a line; Ctrl-D ends")):
            monkeypatch.setattr(sys, "stdin", stream)
            with open_input(None):
                assert said in caplog.text and bool(said) is bool(caplog.text)
    os.close(ours)
