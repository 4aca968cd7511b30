"""GloVe: against equations 8 and 9 in float64, and on structures whose answer is known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.glove import Cooccurrences, Glove, GloveConfig

WORDS, WIDTH = 30, 7
Tables = dict[str, NDArray[np.float64]]


def entries(count: int = 400, words: int = WORDS, seed: int = 0) -> Cooccurrences:
    """Random places, each once, with values on both sides of x_max."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(words * words, count, replace=False)
    values = np.exp(rng.normal(2.0, 2.0, count)).astype(np.float32)
    return Cooccurrences((cells // words).astype(np.int32), (cells % words).astype(np.int32), values)


def of_one(i: int, j: int, value: float) -> Cooccurrences:
    return Cooccurrences(np.array([i], np.int32), np.array([j], np.int32), np.array([value], np.float32))


def doubles(learner: Glove) -> Tables:
    return {name: table.astype(np.float64) for name, table in learner.tables.items()}


def reference(config: GloveConfig, tables: Tables, segment: Cooccurrences, lr: float) -> float:
    """The paper's method in plain float64, in place; the summed loss."""
    d = config.width
    words, contexts = tables["words"], tables["contexts"]
    total = 0.0
    for i, j, x in zip(segment.words, segment.contexts, segment.values.astype(np.float64), strict=True):
        weight = min(1.0, x / config.x_max) ** config.alpha
        error = words[i, :d] @ contexts[j, :d] + words[i, d] + contexts[j, d] - np.log(x)
        total += weight * error**2
        of_word = np.append(contexts[j, :d], 1.0) * weight * error * lr
        of_context = np.append(words[i, :d], 1.0) * weight * error * lr
        for table, sums, row, gradient in (
            (words, tables["word_squares"], i, of_word),
            (contexts, tables["context_squares"], j, of_context),
        ):
            sums[row, : d + 1] += gradient**2
            table[row, : d + 1] -= gradient / np.sqrt(sums[row, : d + 1])
    return total


def loss(tables: Tables, segment: Cooccurrences, config: GloveConfig) -> float:
    """Equation 8 over the segment."""
    d, i, j = config.width, segment.words, segment.contexts
    x = segment.values.astype(np.float64)
    words, contexts = tables["words"], tables["contexts"]
    errors = np.einsum("nd,nd->n", words[i, :d], contexts[j, :d]) + words[i, d] + contexts[j, d] - np.log(x)
    return float(np.sum(np.minimum(1.0, x / config.x_max) ** config.alpha * errors**2))


@pytest.mark.parametrize("width", [1, 7, 15, 16, 100])
def test_steps_and_loss_are_those_of_the_equations(width: int) -> None:
    config = GloveConfig(width=width)
    learner = Glove(config, np.ones(WORDS, np.int64), seed=1)
    expected, segment = doubles(learner), entries()
    for _ in range(3):
        summed = reference(config, expected, segment, 0.05)
        found, predictions = learner.train(segment, 0.05, 1, threads=1)
        assert predictions == len(segment)
        assert found == pytest.approx(summed, rel=1e-5)
    for name, table in learner.tables.items():
        np.testing.assert_allclose(table, expected[name], rtol=2e-4, atol=2e-5)


def test_the_first_step_goes_down_the_gradient() -> None:
    """At a tiny rate AdaGrad divides by one, so a step is minus the rate times half the gradient of equation 8."""
    config, lr, segment = GloveConfig(width=WIDTH), 1e-3, of_one(3, 5, 40.0)
    learner = Glove(config, np.ones(WORDS, np.int64), seed=2)
    for name in ("words", "contexts"):
        learner.tables[name][:, : WIDTH + 1] = np.random.default_rng(0).normal(0, 0.5, (WORDS, WIDTH + 1))
    before = doubles(learner)
    learner.train(segment, lr, 1, threads=1)
    for name, row in (("words", 3), ("contexts", 5)):
        for column in range(WIDTH + 1):
            sides = []
            for sign in (1, -1):
                moved = {key: table.copy() for key, table in before.items()}
                moved[name][row, column] += sign * 1e-5
                sides.append(loss(moved, segment, config))
            half_gradient = (sides[0] - sides[1]) / 2e-5 / 2
            step = learner.tables[name][row, column] - before[name][row, column]
            assert step == pytest.approx(-lr * half_gradient, rel=2e-3, abs=1e-7)
    untouched = np.delete(learner.tables["words"], 3, axis=0)
    np.testing.assert_array_equal(untouched, np.delete(before["words"], 3, axis=0).astype(np.float32))


def test_threads_reach_the_same_loss() -> None:
    segment, losses = entries(800, words=60), []
    for threads in (1, 2, 3):
        learner = Glove(GloveConfig(width=20), np.ones(60, np.int64), seed=5)
        for _ in range(40):
            summed, predictions = learner.train(segment, 0.05, 1, threads)
        assert predictions == 800
        losses.append(summed)
    assert max(losses) < 1.2 * min(losses)
    assert losses[0] < 0.1 * loss(
        doubles(Glove(GloveConfig(width=20), np.ones(60, np.int64), 5)), segment, GloveConfig(width=20)
    )


def test_a_matrix_of_low_rank_is_recovered() -> None:
    """X = exp(a b' + biases) can be fitted exactly: the products come back, though the vectors need not."""
    rng = np.random.default_rng(6)
    words, d = 20, 3
    logarithms = rng.normal(0, 0.7, (words, d)) @ rng.normal(0, 0.7, (d, words)) + rng.normal(3, 0.3, (words, 1))
    cells = rng.permutation(words * words)
    segment = Cooccurrences(
        (cells // words).astype(np.int32),
        (cells % words).astype(np.int32),
        np.exp(logarithms).ravel()[cells].astype(np.float32),
    )
    config = GloveConfig(width=d + 2)
    learner = Glove(config, np.ones(words, np.int64), seed=7)
    for _ in range(1500):
        learner.train(segment, 0.1, 1, threads=1)
    tables, width = doubles(learner), config.width
    fitted = tables["words"][:, :width] @ tables["contexts"][:, :width].T
    fitted += tables["words"][:, [width]] + tables["contexts"][:, width]
    assert np.abs(fitted - logarithms).max() < 0.05


def test_words_that_meet_the_same_words_become_alike() -> None:
    """Two families of words with contexts of their own: neighbours are found within the family."""
    rng = np.random.default_rng(8)
    words = 24
    family = np.arange(words) % 2
    values = np.where(family[:, None] == family, 50.0, 1.0) * np.exp(rng.normal(0, 0.2, (words, words)))
    cells = rng.permutation(words * words)
    segment = Cooccurrences(
        (cells // words).astype(np.int32), (cells % words).astype(np.int32), values.ravel()[cells].astype(np.float32)
    )
    learner = Glove(GloveConfig(width=8), np.ones(words, np.int64), seed=9)
    for _ in range(60):
        learner.train(segment, 0.05, 1, threads=1)
    vectors = learner.vectors()["vectors"]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -1)
    np.testing.assert_array_equal(family[alike.argmax(1)], family)


def test_vectors_are_sums() -> None:
    learner = Glove(GloveConfig(width=WIDTH), np.ones(WORDS, np.int64), seed=1)
    found = learner.vectors()
    words, contexts = (learner.tables[name][:, :WIDTH] for name in ("words", "contexts"))
    assert {name: table.shape for name, table in found.items()} == dict.fromkeys(
        ("vectors", "contexts"), (WORDS, WIDTH)
    )
    np.testing.assert_array_equal(found["contexts"], contexts)
    np.testing.assert_array_equal(found["vectors"], words + contexts)
    assert not (words == contexts).any()


def test_two_words_and_an_empty_segment() -> None:
    learner = Glove(GloveConfig(width=WIDTH), np.array([5, 5]), seed=1)
    before = learner.tables["words"].copy()
    empty = Cooccurrences(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))
    assert learner.train(empty, 0.05, 1, threads=2) == (0.0, 0)
    np.testing.assert_array_equal(learner.tables["words"], before)
    for _ in range(400):
        summed, _ = learner.train(of_one(0, 1, 1000.0), 0.05, 1, threads=4)
    assert summed < 1e-4


def test_extreme_values_stay_finite() -> None:
    """Counts from the smallest float to the largest, and a rate far too high: steps are bounded, nothing overflows."""
    rng = np.random.default_rng(10)
    segment = entries(900)
    segment.values[:] = np.exp(rng.uniform(-80, 80, 900)).astype(np.float32)
    learner = Glove(GloveConfig(width=WIDTH), np.ones(WORDS, np.int64), seed=1)
    for _ in range(20):
        learner.train(segment, 1000.0, 1, threads=1)
    assert all(np.isfinite(table).all() for table in learner.tables.values())


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_entries_that_cannot_be_are_refused(value: float) -> None:
    learner = Glove(GloveConfig(width=WIDTH), np.ones(WORDS, np.int64), seed=1)
    with pytest.raises(UserError, match="numbers above zero"):
        learner.train(of_one(0, 1, value), 0.05, 1, threads=1)


def test_a_broken_table_shows_in_the_loss() -> None:
    """The loop stops at a loss that is no number; a rank that raised by itself would leave the others waiting."""
    learner = Glove(GloveConfig(width=WIDTH), np.ones(WORDS, np.int64), seed=1)
    learner.tables["contexts"][1, 2] = np.nan
    assert np.isnan(learner.train(of_one(0, 1, 5.0), 0.05, 1, threads=1)[0])
