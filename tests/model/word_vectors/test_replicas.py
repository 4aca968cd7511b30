"""Threads' copies of the most used rows, and how they meet."""

from dataclasses import replace

import numpy as np
import pytest

from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.replicas import Plan
from dragoman.model.word_vectors.word2vec import Word2Vec, Word2VecConfig

COUNTS = np.maximum(1, (200_000 / np.arange(1, 301)).astype(np.int64))


def text(words: int, seed: int = 1) -> Text:
    rows = np.random.default_rng(seed).choice(len(COUNTS), words, p=COUNTS / COUNTS.sum()).astype(np.int32)
    return Text(rows, np.append(np.arange(0, words, 500), words).astype(np.int64))


@pytest.mark.parametrize("threads", [2, 16])
def test_what_hardly_moved_is_added_and_what_has_arrived_is_averaged(threads: int) -> None:
    uses = 1.0 / np.arange(1, 5001)
    assert Plan.of(uses, 1e6, threads, 0.0).shares == pytest.approx(1)
    assert Plan.of(uses, 1e6, threads, 1e3).shares == pytest.approx(1 / threads)
    between = Plan.of(uses, 1e6, threads, 0.05).shares
    assert ((between > 1 / threads) & (between < 1)).all()


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow"])
@pytest.mark.parametrize("output", ["negative", "hierarchical"])
@pytest.mark.parametrize("rows", [37, 299])
def test_a_lone_thread_that_adds_all_it_has_moved_learns_the_same(
    algorithm: str, output: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(Word2VecConfig(width=20, sample=0.01), algorithm=algorithm, output=output)
    plain, copied = (Word2Vec(config, COUNTS, 1) for _ in range(2))
    expected = plain.train(text(6000), 0.05, 1, 1)
    plan = Plan(np.ones(rows, np.float32), np.array([0, rows // 2, rows]))
    monkeypatch.setattr(Plan, "of", lambda *_: plan)
    assert copied.train(text(6000), 0.05, 1, 1) == pytest.approx(expected, rel=1e-6)
    for name, table in plain.tables.items():
        np.testing.assert_allclose(copied.tables[name], table, atol=1e-5)
        assert np.abs(table[:rows]).max() > 1e-3


def test_nothing_of_a_segment_stays_behind_in_the_copies() -> None:
    """Tables that somebody else changes between segments, as averages of ranks do, are where the next one begins."""
    config = Word2VecConfig(width=20, sample=0.01)
    learner = Word2Vec(config, COUNTS, 1)
    learner.train(text(6000), 0.05, 1, 2)
    for table in learner.tables.values():
        table[:] = 0
    learner.train(text(6000), 0.0, 2, 2)
    for table in learner.tables.values():
        assert not table.any()
