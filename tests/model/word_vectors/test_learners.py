"""What every method that learns word vectors has: the same bits from a seed, tables that are its whole state."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.schema import build
from dragoman.model.word_vectors.glove import Glove, GloveConfig
from dragoman.model.word_vectors.learner import Learner
from dragoman.model.word_vectors.word2vec import SOFTMAX_WORDS, Word2Vec, Word2VecConfig
from tests.model.word_vectors import test_batched, test_glove, test_word2vec

WIDTH = 20


def word2vec(**changes: Any) -> Callable[[int], Learner]:
    return lambda seed: Word2Vec(test_word2vec.config(**changes), test_word2vec.ZIPF, seed)


MAKE: dict[str, Callable[[int], Learner]] = {
    "negative": word2vec(),
    "hierarchical": word2vec(output="hierarchical"),
    "softmax": word2vec(output="softmax"),
    "cbow": word2vec(algorithm="cbow"),
    "torch": lambda seed: test_batched.BatchedWord2Vec(test_batched.config(), test_batched.COUNTS, seed),
    "glove": lambda seed: Glove(GloveConfig(width=WIDTH), np.ones(test_glove.WORDS, np.int64), seed),
}
every = pytest.mark.parametrize("name", MAKE)


def segment(name: str, seed: int = 1) -> Any:
    if name == "glove":
        return test_glove.entries(seed=seed)
    return test_batched.text(seed=seed) if name == "torch" else test_word2vec.text(test_word2vec.ZIPF, 3000, seed)


@every
def test_one_thread_repeats_bit_for_bit_and_the_seed_matters(name: str) -> None:
    learners = [MAKE[name](3) for _ in range(3)]
    results = [
        [learner.train(segment(name), 0.05, seed + number, 1) for number in range(2)]
        for learner, seed in zip(learners, (3, 3, 7), strict=True)
    ]
    assert results[0] == results[1]
    first, again, other = (learner.tables for learner in learners)
    for table in first:
        assert np.array_equal(first[table], again[table])
    assert name == "glove" or not np.array_equal(first["vectors"], other["vectors"])


@every
def test_tables_are_the_whole_state(name: str) -> None:
    """A learner made anew goes on from saved tables to the same bits."""
    whole, resumed = MAKE[name](4), MAKE[name](99)
    whole.train(segment(name), 0.05, 1, threads=1)
    for table, saved in whole.tables.items():
        resumed.tables[table][:] = saved
    for learner in (whole, resumed):
        learner.train(segment(name, seed=2), 0.05, 2, threads=1)
    assert all(np.array_equal(table, resumed.tables[key]) for key, table in whole.tables.items())


@every
def test_vectors_are_unpadded_copies_and_padding_stays_zero(name: str) -> None:
    learner = MAKE[name](1)
    learner.train(segment(name), 0.05, 1, 1)
    found, before = learner.vectors(), {key: table.copy() for key, table in learner.tables.items()}
    assert {table.shape[1] for table in found.values()} == {WIDTH}
    for vectors in found.values():
        vectors[:] = 7.0
    for key, table in learner.tables.items():
        assert np.array_equal(table, before[key])
        assert table.ctypes.data % 64 == 0 and table.shape[1] == 32
        assert name == "glove" or not table[:, WIDTH:].any()


@pytest.mark.parametrize(
    ("values", "words", "message"),
    [
        ({"width": 0}, 9, "model.width=0: must be at least 1"),
        ({"lr": float("nan")}, 9, "model.lr=nan"),
        ({}, 1, "a vocabulary of 1 word"),
        ({"output": "softmax"}, SOFTMAX_WORDS + 1, "model.output=softmax: scores all 50,001 words"),
        ({"architecture": "glove", "x_max": 0.0}, 2, "model.x_max=0.0: must be above 0"),
        ({"architecture": "glove", "x_mx": 1.0}, 2, "Did you mean 'x_max'?"),
    ],
    ids=str,
)
def test_what_cannot_be_trained_is_refused_by_name(values: dict[str, Any], words: int, message: str) -> None:
    glove = values.get("architecture") == "glove"
    with pytest.raises(UserError) as caught:
        settings = build(GloveConfig if glove else Word2VecConfig, values, "model")
        (Glove if glove else Word2Vec)(settings, np.ones(words, np.int64), 1)
    assert message in str(caught.value)
