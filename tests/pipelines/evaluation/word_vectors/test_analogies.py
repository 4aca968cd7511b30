"""Analogies in bulk are those asked one by one, and are counted by section as the questions' authors do."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.evaluation.word_vectors import analogies
from dragoman.pipelines.evaluation.word_vectors.analogies import answer, read_analogies, score_analogies


def random_embeddings(size: int = 40, seed: int = 4) -> Embeddings:
    vectors = np.random.default_rng(seed).standard_normal((size, 6))
    return Embeddings([f"w{i}" for i in range(size)], None, vectors)


@pytest.mark.parametrize("restrict", [0, 25])
@pytest.mark.parametrize("block_bytes", [1, 4000, 1 << 26])
def test_answers_in_bulk_are_those_asked_one_by_one(
    restrict: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analogies, "BLOCK_BYTES", block_bytes)
    embeddings = random_embeddings()
    rows = np.random.default_rng(2).integers(0, 25, (60, 3))
    found = answer(embeddings, rows, restrict)
    for row, answers in zip(rows, found, strict=True):
        a, b, c = (f"w{i}" for i in row)
        assert answers[0] == embeddings.known(embeddings.analogy(a, b, c, restrict=restrict)[0].word)
        assert answers[1] == embeddings.known(embeddings.analogy(a, b, c, method="3cosmul", restrict=restrict)[0].word)


def test_sections_and_totals_worked_by_hand() -> None:
    words = ["man", "woman", "king", "queen", "walk", "walked", "talk", "talked", "noise"]
    base = {"man": (0, 0), "king": (1, 0), "walk": (2, 0), "talk": (3, 0)}
    steps = {"woman": ("man", 4), "queen": ("king", 4), "walked": ("walk", 5), "talked": ("talk", 5)}
    vectors = np.zeros((9, 6))
    for word, (axis, _) in base.items():
        vectors[words.index(word), axis] = 1
    for word, (of, axis) in steps.items():
        vectors[words.index(word)] = vectors[words.index(of)]
        vectors[words.index(word), axis] = 1
    vectors[8] = -1
    questions = {
        "family": [("man", "woman", "king", "queen"), ("man", "woman", "king", "talked")],
        "gram7-past-tense": [("Walk", "walked", "talk", "talked"), ("walk", "walked", "run", "ran")],
    }
    scores = score_analogies(Embeddings(words, None, vectors), questions, restrict=0)
    assert list(scores) == ["family", "gram7-past-tense", "semantic", "syntactic", "total"]
    assert (scores["family"].cosadd, scores["family"].found, scores["family"].asked) == (50.0, 2, 2)
    assert (scores["syntactic"].cosadd, scores["syntactic"].found, scores["syntactic"].asked) == (100.0, 1, 2)
    assert scores["total"].cosadd == scores["total"].cosmul == pytest.approx(100 * 2 / 3)
    assert scores["total"].coverage == 75.0


def test_questions_beyond_the_restriction_are_not_asked() -> None:
    questions = {"one": [("w0", "w1", "w2", "w3"), ("w0", "w1", "w2", "w30")]}
    assert score_analogies(random_embeddings(), questions, restrict=10)["total"].found == 1
    nothing = score_analogies(random_embeddings(), questions, restrict=3)["total"]
    assert (nothing.found, nothing.cosadd, nothing.asked) == (0, 0.0, 2)
    assert "semantic" not in score_analogies(random_embeddings(), questions, restrict=3)


def test_questions_are_read_in_both_forms(tmp_path: Path) -> None:
    (tmp_path / "google.txt").write_text(
        ": family\nboy girl brother sister\nboy girl king queen\n: gram1\na b c d\n", "utf-8"
    )
    family = [("boy", "girl", "brother", "sister"), ("boy", "girl", "king", "queen")]
    assert read_analogies(tmp_path / "google.txt") == {"family": family, "gram1": [("a", "b", "c", "d")]}
    (tmp_path / "msr.csv").write_text(
        ",type,word1,word2,word3,target\n0,JJ_JJR,good,better,rough,rougher\n1,NN_NNS,cat,cats,dog,dogs\n", "utf-8"
    )
    assert read_analogies(tmp_path / "msr.csv") == {
        "JJ_JJR": [("good", "better", "rough", "rougher")],
        "NN_NNS": [("cat", "cats", "dog", "dogs")],
    }


def test_the_real_questions_are_read_whole(corpora: Path) -> None:
    google = read_analogies(corpora / "wordvec-eval" / "questions-words.txt")
    assert sum(map(len, google.values())) == 19_544
    assert len(google) == 14
    assert len(google["capital-common-countries"]) == 506
    assert google["family"][0] == ("boy", "girl", "brother", "sister")
    assert sum(len(section) for name, section in google.items() if name.startswith("gram")) == 10_675
    msr = read_analogies(corpora / "wordvec-eval" / "msr.csv")
    assert [len(section) for section in msr.values()] == [500] * 16
    assert msr["JJ_JJR"][0] == ("good", "better", "rough", "rougher")
    phrases = read_analogies(corpora / "wordvec-eval" / "questions-phrases.txt")
    assert sum(map(len, phrases.values())) == 3_218


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.txt", ": family\na b c d\na b c\n", "line 3 is no question of four words: 'a b c'"),
        ("q.txt", ": family\n", "holds no questions"),
        ("q.csv", ",type,word1,word2,word3\n0,x,a,b,c\n", "question 1 lacks one of the columns word1"),
    ],
)
def test_a_file_without_questions_is_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_analogies(tmp_path / name)
