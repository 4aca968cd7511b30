"""What a verb writes its own readers read back, whatever stands in the texts."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import UserError
from model.inference.translator import Alternative, Translation
from model.word_vectors.formats import make_embeddings, read_binary, read_text, write_binary, write_text
from services.commands.lines import ESCAPED_BAR, flat, read_lines
from services.commands.nbest import Entry, read_nbest
from services.commands.translate import format_translation

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


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_a_translation_is_one_line_of_text_and_of_json(source: str, text: str) -> None:
    assert lines_of(format_translation(0, source, answer(text), "text")) == [flat(text)]
    written = format_translation(0, source, answer(text), "json")
    (line,) = written.split("\n")[:-1]
    record = json.loads(line)
    assert record["source"] == source and record["text"] == text and record["nbest"][0]["text"] == text


@settings(max_examples=200, deadline=None)
@given(TEXTS.filter(lambda text: ESCAPED_BAR not in text), st.sampled_from(["nbest", "moses"]))
def test_a_list_is_read_back_by_rerank(text: str, form: str) -> None:
    written = format_translation(7, "source", answer(text), form)
    (found,) = read_nbest(lines_of(written), "f")
    assert found.number == 7
    assert [entry.text for entry in found.entries] == [flat(text).strip(), "x"]
    assert [entry.score for entry in found.entries] == [-1.0, -3.0]
    (again,) = read_nbest(lines_of(Entry("p", text, {}, "A= 1").line(3, {"B": 2.0}, 0.5)), "f")
    (entry,) = again.entries
    assert entry.text == flat(text).strip() and entry.features == {"A": 1.0, "B": 2.0} and entry.score == 0.5


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), min_size=1, max_size=5, unique=True))
def test_vector_files_are_read_back_or_refused(words: list[str]) -> None:
    vectors = np.arange(2 * len(words), dtype=np.float32).reshape(-1, 2) + 1
    for write, read in ((write_text, read_text), (write_binary, read_binary)):
        path = FOLDER / "vectors"
        try:
            write(path, make_embeddings(path, words, vectors))
        except UserError as problem:  # a word with a blank in it has no place in such a file
            assert any(word.split() != [word] for word in words), problem
            continue
        found = read(path)
        assert list(found.words) == words
        assert np.array_equal(found.vectors, vectors)
