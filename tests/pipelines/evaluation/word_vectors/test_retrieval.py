"""Retrieval by halves: ranks worked by hand, and a text where only meaning can find the other half."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL
from dragoman.model.word_vectors.counting import one_hot
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.evaluation.word_vectors import retrieval as module
from dragoman.pipelines.evaluation.word_vectors.retrieval import held_out, ranks_of, rates, retrieval, weightings

WORDS = ["a", "b", "c", "d"]


def counted(words: list[str] = WORDS, weights: list[float] | None = None) -> Embeddings:
    given = None if weights is None else np.array(weights)
    return Embeddings(words, None, one_hot(len(words)), given, texts="words")


def test_ranks_worked_by_hand() -> None:
    """Cosines with the first query are 1, 0.6, 0, -1, with the second 0, 0.8, 1, 0, with zeros all 0."""
    candidates = np.array([[2, 0], [3, 4], [0, 1], [-1, 0]], np.float32)
    queries = np.array([[1, 0], [1, 0], [0, 5], [0, 5], [0, 0]], np.float32)
    right = np.array([0, 2, 2, 3, 1])
    expected = [1, 3, 1, 3.5, 2.5]
    np.testing.assert_array_equal(ranks_of(queries, candidates, right), expected)
    np.testing.assert_array_equal(ranks_of(csr_array(queries), csr_array(candidates), right), expected)
    mean = 100 * (1 + 1 / 3 + 1 + 1 / 3.5 + 1 / 2.5) / 5
    assert rates(np.array(expected)) == pytest.approx(
        {"recall_at_1": 40, "recall_at_10": 100, "mean_reciprocal_rank": mean}
    )


def test_many_queries_go_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    queries, candidates = rng.normal(size=(2, 50, 6)).astype(np.float32)
    right = rng.permutation(50)
    whole = ranks_of(queries, candidates, right)
    monkeypatch.setattr("dragoman.model.word_vectors.search.BLOCK_BYTES", 8 * 50 * 7)
    np.testing.assert_array_equal(ranks_of(queries, candidates, right), whole)


def test_words_in_common_find_the_other_half() -> None:
    found = retrieval(counted(), [["a", "b", "a", "b"], ["c", "d", "c", "d"], ["a", "c", "a", "c"]])
    names = ("recall_at_1", "recall_at_10", "mean_reciprocal_rank")
    assert found == {**{f"{by}/{name}": 100.0 for by in ("mean", "idf") for name in names}, "coverage": 100.0}


def test_halves_without_known_words_are_not_asked_for_and_say_so() -> None:
    records = [["a", "b"], ["c", "?"], ["?", "d"], ["a"], [], ["b", "b"]]
    found = retrieval(counted(), records)
    assert found["coverage"] == 50.0
    # a -> b, where all four cosines are 0; b -> b
    assert found["mean/mean_reciprocal_rank"] == pytest.approx(100 * (1 / 2.5 + 1 / 1.5) / 2)


@pytest.mark.parametrize("records", [[], [["a"]], [["a", "b"]], [["?", "?"], ["a", "b"]]])
def test_too_few_records_are_refused(records: list[list[str]]) -> None:
    with pytest.raises(UserError, match="at least two are needed"):
        retrieval(counted(), records)


def test_weights_come_from_the_records_or_the_method() -> None:
    records = [["a", "b", "a"], ["a", "c"], ["a", "?"]]
    found = weightings(counted(weights=[1.0, 2.0, 3.0, 4.0]), records)
    assert found["idf"].tolist() == pytest.approx([1, math.log(2) + 1, math.log(2) + 1, math.log(4) + 1])
    assert found["own"].tolist() == [1, 2, 3, 4]
    assert "own" not in weightings(counted(), records)


def test_rare_words_decide_where_idf_weighs() -> None:
    """Every half is full of `a`; the one other word that tells records apart is outweighed unless idf lifts it."""
    words = ["a", *(f"w{i}" for i in range(12))]
    rng = np.random.default_rng(1)
    records = []
    for i in range(12):
        noise = [f"w{j}" for j in rng.permutation(12)[:2]]
        records.append(["a"] * 3 + [f"w{i}"] + ["a"] * int(rng.integers(1, 6)) + noise[:1] + [f"w{i}"])
    found = retrieval(counted(words), records)
    assert found["idf/mean_reciprocal_rank"] >= found["mean/mean_reciprocal_rank"]


def test_dense_vectors_find_what_shares_no_word() -> None:
    """The halves of a record speak of one subject in words that the other half has not: counts cannot find it."""
    rng = np.random.default_rng(2)
    subjects, each = 20, 6
    directions = rng.normal(size=(subjects, 16))
    words = [f"{subject}-{number}" for subject in range(subjects) for number in range(each)]
    vectors = np.repeat(directions, each, axis=0) + rng.normal(0, 0.3, (subjects * each, 16))
    records = [[f"{subject}-{number}" for number in range(each)] for subject in range(subjects)]
    dense = retrieval(Embeddings(words, None, vectors.astype(np.float32)), records)
    sparse = retrieval(counted(words), records)
    for name in ("mean", "idf"):
        assert dense[f"{name}/recall_at_1"] > 90
        assert sparse[f"{name}/recall_at_1"] == 0


def test_the_last_records_of_the_shards_are_taken(
    make_shards: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECORDS", 7)
    first = len(SPECIAL)  # ids from here on are w0, w1, ...
    records = [(np.full(1 + number % 60, first + number % 40, np.uint16), None) for number in range(50)]
    found = held_out(make_shards(records))
    assert [words[0] for words in found] == [f"w{number % 40}" for number in range(43, 50)]
    assert [len(words) for words in found] == [min(1 + number % 60, 40) for number in range(43, 50)]
    short = [(np.full(5, first, np.uint16), None) for _ in range(20)]
    assert held_out(make_shards(short, name="short")) == []
