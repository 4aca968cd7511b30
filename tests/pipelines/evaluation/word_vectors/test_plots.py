"""Pictures show what was asked, and vectors of any odd kind make one too."""

from io import BytesIO

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.sparse import eye

from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.labels import project
from dragoman.pipelines.evaluation.word_vectors.evaluation import Sets
from dragoman.pipelines.evaluation.word_vectors.plots import all_pictures, analogy_steps
from dragoman.pipelines.evaluation.word_vectors.projections import best_pairs, drawn_words, parallelograms
from dragoman.pipelines.evaluation.word_vectors.similarity import SimilaritySet

RNG = np.random.default_rng(3)
NO_SETS = Sets([], {})


def clusters(count: int = 4, each: int = 10, width: int = 12) -> Embeddings:
    """Words `a0`, `a1`, ... `b0`, ... whose letters lie far apart."""
    centres = np.eye(count, width) * 5
    vectors = [centres[i % count] + 0.1 * RNG.standard_normal(width) for i in range(count * each)]
    return Embeddings([f"{'abcdefgh'[i % count]}{i // count}" for i in range(count * each)], None, np.array(vectors))


def png(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def test_pca_keeps_the_largest_variance() -> None:
    points = RNG.standard_normal((50, 5)) * [1, 9, 0.1, 4, 0.1]
    places = project(points)
    assert places.var(axis=0) == pytest.approx(np.sort(np.linalg.eigvalsh(np.cov(points.T, bias=True)))[:-3:-1])


def test_parallelograms_of_equal_steps_are_parallel() -> None:
    bases = np.random.default_rng(2).standard_normal((4, 300))
    bases /= np.linalg.norm(bases, axis=1, keepdims=True)
    step = np.zeros(300)
    bases[:, 0], step[0] = 0, 1
    words = [f"{kind}{i}" for i in range(4) for kind in ("from", "to")]
    embeddings = Embeddings(words, None, np.stack([bases, bases + step], axis=1).reshape(8, 300))
    questions = [(f"from{i}", f"to{i}", f"from{j}", f"to{j}") for i in range(4) for j in range(4) if i != j]
    sections = {"one": questions, "same": questions[:6], "unknown": [("x", "y", "z", "w")]}
    found = parallelograms(embeddings, sections, 5)
    assert list(found) == ["one"], "a section of the same pairs is not drawn again"
    pairs, places = found["one"]
    assert pairs == [(f"from{i}", f"to{i}") for i in range(4)]
    arrows = places[:, 1] - places[:, 0]
    assert np.all(arrows[:, 0] > 3 * np.abs(arrows[:, 1]))
    figure = analogy_steps(embeddings, sections)
    assert figure is not None
    assert len(figure.axes) == 1
    assert analogy_steps(embeddings, {"unknown": [("x", "y", "z", "w")]}) is None, "no picture of nothing"


def test_pairs_are_the_frequent_ones_without_a_word_twice() -> None:
    embeddings = Embeddings(["a", "b", "c", "d", "e"], None, np.eye(5))
    questions = [("E", "d", "a", "b"), ("a", "c", "x", "y"), ("d", "d", "c", "d")]
    assert best_pairs(embeddings, questions, 9) == [("a", "b"), ("c", "d")]


def test_words_are_the_sets_or_frequent_ones() -> None:
    embeddings = Embeddings([f"w{i}" for i in range(300)], None, RNG.standard_normal((300, 4)))
    assert drawn_words(embeddings, NO_SETS)[:2] == ["w100", "w101"]
    pairs = SimilaritySet("s", [("w7", "w200"), ("w150", "unknown")], np.ones(2))
    sets = Sets([pairs], {"q": {"one": [("w1", "w2", "w3", "w4")]}})
    assert drawn_words(embeddings, sets, ["W9", "unknown"]) == ["w9", "w150", "w200", "w7", "w1", "w2", "w3", "w4"]


@pytest.mark.parametrize(
    "embeddings",
    [
        clusters(),
        Embeddings(["one"], None, np.ones((1, 4))),
        Embeddings(["a", "b", "c", "d"], None, np.zeros((4, 3))),
        Embeddings([f"w{i}" for i in range(40)], None, eye(40).tocsr()),
        Embeddings(["a", "b", "c", "d", "e", "f"], None, np.arange(6.0)[:, None]),
    ],
    ids=["clusters", "one word", "zeros", "one-hot", "one number"],
)
def test_every_kind_of_vectors_makes_pictures(embeddings: Embeddings) -> None:
    found = all_pictures(embeddings, NO_SETS)
    directed = [word for word in embeddings.words if np.any(embeddings.vector(word))]
    of_words = ["projection"] if len(directed) > 2 else []
    assert list(found) == of_words, "no picture of a single word, or of words without a direction"
    assert all(png(figure).startswith(b"\x89PNG") for figure in found.values())
