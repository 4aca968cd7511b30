"""Word vectors written by other programs' formats are read to the bit."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.bundles.vectors import load_vectors, save_read
from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.formats import Format, write_format
from dragoman.model.word_vectors.readers import read_vectors

WORDS = ["the", "Hund", "naïve", "犬", "dog"]


def embeddings() -> Embeddings:
    vectors = np.random.default_rng(1).normal(size=(len(WORDS), 7)).astype(np.float32)
    return Embeddings(WORDS, np.arange(5, 0, -1), vectors)


@pytest.mark.parametrize("form", ["text", "binary"])
def test_what_our_export_writes_is_read_to_the_bit(form: Format, tmp_path: Path) -> None:
    found = read_vectors(write_format(tmp_path, form, embeddings()))
    assert found.words == WORDS
    assert np.array_equal(found.vectors, embeddings().vectors)


def test_glove_has_no_first_line_and_words_with_spaces(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("the 0.5 1 -2\n. . 1e-3 2 3\nthe 9 9 9\n</s> 1 1 1\n")
    found = read_vectors(tmp_path / "glove.txt")
    assert (found.format, found.words, found.dropped) == ("GloVe", ["the", ". ."], 2)
    assert found.vectors.tolist() == [[0.5, 1, -2], [np.float32(1e-3), 2, 3]]


def test_compressed_files_and_a_zip_with_one_member_are_unpacked(tmp_path: Path) -> None:
    plain = write_format(tmp_path, "binary", embeddings()).read_bytes()
    (tmp_path / "v.bin.gz").write_bytes(gzip.compress(plain))
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("v.bin", plain)
    for name in ("v.bin.gz", "v.zip"):
        assert np.array_equal(read_vectors(tmp_path / name).vectors, embeddings().vectors)
    with zipfile.ZipFile(tmp_path / "v.zip", "a") as archive:
        archive.writestr("w.bin", plain)
    with pytest.raises(UserError, match=r"one member is needed, 2 found \(v.bin, w.bin\)"):
        read_vectors(tmp_path / "v.zip")


def test_the_bundle_answers_with_the_vectors_of_the_file(tmp_path: Path) -> None:
    found = read_vectors(write_format(tmp_path, "text", embeddings()))
    save_read(tmp_path / "bundle", found, "de", {"source": "x"})
    bundle = load_vectors(tmp_path / "bundle")
    assert np.array_equal(bundle.embeddings.vector("Hund"), embeddings().vectors[1])
    assert bundle.facts["imported"]["source"] == "x"


@pytest.mark.parametrize("first", ["", "2 3\n"])
def test_rows_may_have_tabs(first: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{first}dog\t0.5\t1\t2\nthe cat\t1\t2\t3\n")
    found = read_vectors(tmp_path / "a.txt")
    assert (found.words, found.vectors[0].tolist()) == (["dog", "the cat"], [0.5, 1, 2])


DAMAGED: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda content: content[:-9], r"word 5 of 5: the file is cut off"),
    (lambda content: b"\x80\x04" + content, r"looks like a pickle"),
    (lambda content: b"2 3\na 1 2 3\n", r"line 1 announces 2 words, there are 1"),
    (lambda content: b"1 3\na 1 2 3\nb 1 2 3\n", r"line 1 announces 1 words, there are 2$"),
    (lambda content: b"2 3\na 0,12 0,3 -0,5\nb 0,1 0,2 0,3\n", r"line 2: not a word and 3 numbers.*decimal points"),
    (lambda content: "2 2\nä\t0,12\t0,3\n".encode(), r"line 2: not a word and 2 numbers"),
    (lambda content: b"a 1 2 3\nb 1 x 3\n", r"line 2: not a word and 3 numbers"),
    (lambda content: b"a 1 2 3\nb 1 2\n", r"line 2: 2 numbers, the first row has 3"),
    (lambda content: b"hello world\n", r"no word vectors; formats"),
    (lambda content: b"0 3\n", r"line 1 announces 0 words"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGED, ids=[message for _, message in DAMAGED])
def test_files_that_hold_no_vectors_are_refused(damage: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    path = write_format(tmp_path, "binary", embeddings())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=message):
        read_vectors(path)
