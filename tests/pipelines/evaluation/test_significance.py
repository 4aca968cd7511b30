"""Scores of resampled sets and seeds, against sacreBLEU and known answers."""

import random

import numpy as np
import pytest

from dragoman.pipelines.evaluation.metrics import quick_bleu, quick_chrf
from dragoman.pipelines.evaluation.significance import draw_seeds, holm, paired_bootstrap, score_resampled, welch_p

WORDS = ["a", "dog", "cat", "man", "runs", "sees", "the", "big", "small", "red", "house", "tree"]


def texts(seed: int, wrong: float, count: int = 60) -> tuple[list[str], list[str]]:
    """References, and hypotheses with some words wrong."""
    rng = random.Random(seed)
    gold = [rng.choices(WORDS, k=9) for _ in range(count)]
    ours = [[rng.choice(WORDS) if rng.random() < wrong else word for word in row] for row in gold]
    return [" ".join(row) for row in gold], [" ".join(row) for row in ours]


def test_scores_are_sacrebleus_and_sets_are_shared() -> None:
    gold, ours = texts(1, 0.2)
    exact, drawn = score_resampled([ours, ours, gold], gold, "bleu", "13a", 130)
    assert exact == pytest.approx([quick_bleu(ours, gold), quick_bleu(ours, gold), 100.0])
    assert drawn.shape == (130, 3)
    assert np.array_equal(drawn[:, 0], drawn[:, 1])
    assert drawn[:, 0].std() > 0.5
    assert score_resampled([ours], gold, "chrf", "13a", 2)[0][0] == pytest.approx(quick_chrf(ours, gold))


def test_sentences_alone_make_two_seeds_of_one_network_differ() -> None:
    """Two trainings of equal worth, one of them lucky: by its sentences it is better, by its seeds it is not."""
    rng = np.random.default_rng(1)
    gold, _ = texts(1, 0.0, 300)

    def trained(wrong: float) -> list[str]:
        draw = random.Random(int(rng.integers(1 << 30)))
        return [" ".join(draw.choice(WORDS) if draw.random() < wrong else word for word in row.split()) for row in gold]

    before, after = [trained(wrong) for wrong in (0.26, 0.12, 0.24)], [trained(wrong) for wrong in (0.12, 0.27, 0.23)]
    assert paired_bootstrap(before[0], after[0], gold, samples=300).p_value < 0.01
    exact, drawn = score_resampled([*before, *after], gold, "bleu", "13a", 300)
    differences = draw_seeds(drawn[:, 3:], seed=2) - draw_seeds(drawn[:, :3], seed=1)
    assert welch_p(differences, exact[:3], exact[3:]) > 0.3


@pytest.mark.parametrize("sentences", [0.1, 0.5])
@pytest.mark.parametrize("seeds", [2, 3])
def test_equal_networks_are_called_different_no_oftener_than_promised(seeds: int, sentences: float) -> None:
    """Scores of two networks of equal worth whose seeds differ by half a BLEU, 1,500 comparisons of them.

    Read from the resampled distribution, as before, 15 % of those from two seeds and 11 % from three were below 0.05
    where the seeds matter more than the sentences.
    """
    rng = np.random.default_rng(seeds)
    alarms = 0
    for trial in range(1500):
        exact = rng.normal(30, 0.5, 2 * seeds) + rng.normal(0, sentences, 2 * seeds)
        drawn = exact + rng.normal(0, sentences, (200, 2 * seeds))
        differences = draw_seeds(drawn[:, seeds:], seed=2 * trial) - draw_seeds(drawn[:, :seeds], seed=2 * trial + 1)
        alarms += welch_p(differences, exact[:seeds], exact[seeds:]) < 0.05
    assert alarms / 1500 < 0.07


def test_a_difference_far_beyond_the_seeds_is_seen() -> None:
    exact = np.array([30.0, 30.3, 29.9, 33.0, 33.2, 33.1])
    drawn = exact + np.random.default_rng(1).normal(0, 0.1, (300, 6))
    differences = draw_seeds(drawn[:, 3:], seed=2) - draw_seeds(drawn[:, :3], seed=1)
    assert welch_p(differences, exact[:3], exact[3:]) < 0.01


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_seeds_vary_as_a_mean_of_so_many_does(seeds: int) -> None:
    scores = np.random.default_rng(seeds).normal(30, 1, seeds)
    drawn = draw_seeds(np.tile(scores, (40_000, 1)))
    assert drawn.mean() == pytest.approx(scores.mean(), abs=0.02)
    assert drawn.var() == pytest.approx(scores.var(ddof=1) / seeds, rel=0.05)
    assert np.array_equal(draw_seeds(scores[:, None]), scores), "one seed says nothing of others"


def test_holm_corrects_many_comparisons() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
