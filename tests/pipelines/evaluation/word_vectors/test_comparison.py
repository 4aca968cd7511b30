"""A lead counts where it is beyond chance; both are measured on the words that both have."""

import numpy as np
import pytest
from scipy.sparse import eye
from scipy.stats import spearmanr

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.evaluation.word_vectors.comparison import METRICS, compare_embeddings, restrict_to_shared_words
from dragoman.pipelines.evaluation.word_vectors.evaluation import Sets
from dragoman.pipelines.evaluation.word_vectors.similarity import SimilaritySet

WORDS = [f"w{i}" for i in range(60)]
RNG = np.random.default_rng(6)
TRUTH = RNG.standard_normal((60, 8))


def noisy(noise: float, seed: int, words: list[str] = WORDS) -> Embeddings:
    vectors = TRUTH + noise * np.random.default_rng(seed).standard_normal(TRUTH.shape)
    return Embeddings(words, None, vectors[: len(words)])


def pairs(count: int = 300) -> SimilaritySet:
    rows = RNG.integers(0, 60, (count, 2))
    marks = Embeddings(WORDS, None, TRUTH).similarities(rows)
    return SimilaritySet("truth", [(f"w{i}", f"w{j}") for i, j in rows], marks)


SETS = Sets([pairs()], {"q": {"steps": [(f"w{i}", f"w{i + 1}", f"w{i + 2}", f"w{i + 3}") for i in range(50)]}})


def test_a_clear_lead_is_beyond_chance_and_none_is_not() -> None:
    found = compare_embeddings(noisy(2.0, 1), noisy(0.2, 2), SETS, 0, "similarity", 200)
    assert found.difference > 10
    assert found.p_value == pytest.approx(1 / 201)
    back = compare_embeddings(noisy(0.2, 2), noisy(2.0, 1), SETS, 0, "similarity", 200)
    assert back.difference == pytest.approx(-found.difference)
    assert back.p_value == found.p_value
    assert compare_embeddings(noisy(1.0, 3), noisy(1.0, 4), SETS, 0, "similarity", 200).p_value > 0.05
    same = compare_embeddings(noisy(1.0, 3), noisy(1.0, 3), SETS, 0)
    assert (same.difference, same.p_value) == (0.0, 1.0)


def test_the_scores_are_those_of_scipy_over_common_words() -> None:
    few = noisy(0.5, 5, WORDS[:40])
    found = compare_embeddings(few, noisy(0.2, 2), SETS, 0, "similarity", 100)
    known = [i for i, pair in enumerate(SETS.similarity[0].pairs) if all(int(word[1:]) < 40 for word in pair)]
    cosines = [few.similarity(*SETS.similarity[0].pairs[i]) for i in known]
    assert found.baseline == pytest.approx(100 * spearmanr(cosines, SETS.similarity[0].marks[known]).statistic)
    assert (found.items, found.trials) == (len(known), 100)


def test_metrics_choose_what_counts() -> None:
    one, other = noisy(1.0, 3), noisy(0.5, 4)
    found = {metric: compare_embeddings(one, other, SETS, 0, metric, 100) for metric in METRICS}
    assert found["auto"].candidate == pytest.approx((found["similarity"].candidate + found["analogies"].candidate) / 2)
    assert found["auto"].metric == "similarity and analogies"
    assert compare_embeddings(one, other, Sets(SETS.similarity, {}), 0, "auto", 100).metric == "similarity"
    with pytest.raises(UserError, match="no pairs and no questions in common for the metric analogies"):
        compare_embeddings(one, other, Sets(SETS.similarity, {}), 0, "analogies")
    with pytest.raises(UserError, match="no word in common"):
        compare_embeddings(one, Embeddings(["x", "y"], None, np.eye(2)), SETS, 0)


def test_shared_words_keep_their_vectors_and_the_order_of_the_first() -> None:
    first = Embeddings(["a", "b", "c", "d"], np.array([9, 8, 7, 6]), np.arange(8.0).reshape(4, 2))
    second = Embeddings(["d", "x", "a", "c"], None, eye(4).tocsr())
    one, other = restrict_to_shared_words([first, second])
    assert one.words == other.words == ["a", "c", "d"]
    assert one.counts.tolist() == [9, 7, 6]
    assert one.vector("d").tolist() == [6, 7]
    assert other.vector("d").tolist() == [1, 0, 0, 0]
    assert other.sparse
