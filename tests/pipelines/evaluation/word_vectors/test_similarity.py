"""Spearman's correlation against SciPy's, and the real sets in their several forms."""

import gzip
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from scipy.stats import spearmanr

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.evaluation.word_vectors.analogies import read_analogies
from dragoman.pipelines.evaluation.word_vectors.similarity import read_similarity, score_similarity, spearman

PAIRS = {
    "EN-MC-30": 30, "EN-MEN-TR-3k": 3000, "EN-MTurk-287": 287, "EN-MTurk-771": 771, "EN-RG-65": 65,
    "EN-RW-STANFORD": 2034, "EN-SIMLEX-999": 999, "EN-SimVerb-3500": 3500, "EN-VERB-143": 144,
    "EN-WS-353-ALL": 353, "EN-WS-353-REL": 252, "EN-WS-353-SIM": 203, "EN-YP-130": 130,
}  # fmt: skip


def test_spearman_worked_by_hand() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0])) == pytest.approx(0.5)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1.0)
    # Ranks 1.5, 1.5, 3 and 1, 2, 3: 1.5 / sqrt(1.5 * 2).
    assert spearman(np.array([0.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(1.5 / np.sqrt(3.0))


@pytest.mark.parametrize("size", [2, 3, 10, 500])
def test_spearman_is_scipys_with_and_without_equals(size: int) -> None:
    rng = np.random.default_rng(size)
    for levels in (2, 5, 10_000):
        first, second = (rng.integers(0, levels, size).astype(float) for _ in range(2))
        if len(set(first)) > 1 and len(set(second)) > 1:
            assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


def test_spearman_of_what_has_no_order_is_not_defined() -> None:
    assert spearman(np.zeros(4), np.arange(4.0)) is None
    assert spearman(np.array([1.0]), np.array([1.0])) is None


def test_unknown_pairs_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "small.txt"
    path.write_text(
        "# made up\nEast\tnortheast\t9\neast\tnorth\t5\r\neast west 1.5\neast\tmoon\t10\n", encoding="utf-8"
    )
    plane = np.array([[1, 0], [0, 1], [-1, 0], [0.8, 0.6]])
    score = score_similarity(Embeddings(["east", "north", "west", "northeast"], None, plane), read_similarity(path))
    assert (score.found, score.pairs, score.coverage) == (3, 4, 75.0)
    assert score.spearman == pytest.approx(100.0), "0.8, 0 and -1 in the order of 9, 5 and 1.5"
    nothing = score_similarity(Embeddings(["a", "b"], None, np.eye(2)), read_similarity(path))
    assert (nothing.spearman, nothing.found) == (None, 0)


def test_the_real_sets_are_read_whole(corpora: Path) -> None:
    for name, count in PAIRS.items():
        found = read_similarity(corpora / "wordvec-eval" / f"{name}.txt")
        assert (found.name, len(found.pairs), len(found.marks)) == (name, count, count)
        assert all(word == word.strip() and word for pair in found.pairs for word in pair)
    assert found.pairs[0] == ("brag", "boast")
    assert found.marks[0] == 4.0


def test_a_title_and_commas_are_taken(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("Word 1,Word 2,Human (mean)\nlove,sex,6.77\n", encoding="utf-8")
    assert read_similarity(tmp_path / "s.csv").pairs == [("love", "sex")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\t1\nc\td\n", "line 2 is not word, word, mark: 'c"),
        (b"a b 1\nc d high\n", "line 2"),
        (b"a b nan\n", "line 1"),
        (b"\n\n", "holds no pairs"),
        (b"a \xff\xfe b", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_set_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_bytes(content)
    with pytest.raises(UserError, match=rf"s\.txt.*{message}"):
        read_similarity(tmp_path / "s.txt")
    with pytest.raises(UserError, match=r"t\.txt cannot be read"):
        read_similarity(tmp_path / "t.txt")


def test_sets_are_read_from_zip_utf16_and_tables(tmp_path: Path) -> None:
    text = "cat\tdog\t7.5\nstraße\tstone\t0.5\n"
    with zipfile.ZipFile(tmp_path / "zipped.tsv.zip", "w") as archive:
        archive.writestr("zipped.tsv", text)
    (tmp_path / "wide.tsv").write_bytes(text.encode("utf-16"))
    table = pyarrow.table({"a": ["cat", "straße"], "b": ["dog", "stone"], "mark": [7.5, 0.5]})
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    for name in ("zipped.tsv.zip", "wide.tsv", "table.parquet"):
        one = read_similarity(tmp_path / name)
        assert one.name == name.partition(".")[0]
        assert one.pairs == [("cat", "dog"), ("straße", "stone")] and one.marks.tolist() == [7.5, 0.5]


def test_packed_questions_keep_their_format(tmp_path: Path) -> None:
    msr = b"type,word1,word2,word3,target\nNN,cat,cats,dog,dogs\n"
    (tmp_path / "msr.csv.gz").write_bytes(gzip.compress(msr))
    (tmp_path / "google.txt.xz").write_bytes(lzma.compress(b": plural\ncat cats dog dogs\n"))
    assert read_analogies(tmp_path / "msr.csv.gz") == {"NN": [("cat", "cats", "dog", "dogs")]}
    assert read_analogies(tmp_path / "google.txt.xz") == {"plural": [("cat", "cats", "dog", "dogs")]}


def test_a_set_of_sentences_or_a_cut_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text('<?xml version="1.0"?><tmx version="1.4"></tmx>')
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(b"cat\tdog\t7.5\n" * 99)[:-12])
    with pytest.raises(UserError, match="is a tmx file, which has sentences"):
        read_similarity(tmp_path / "a.tmx")
    with pytest.raises(UserError, match="truncated"):
        read_similarity(tmp_path / "b.tsv.gz")
