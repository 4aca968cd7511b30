"""Scores of resampled sets and seeds, against sacreBLEU and known answers."""

import random

import numpy as np
import pytest

from pipelines.evaluation.metrics import paired_bootstrap, quick_bleu, quick_chrf
from pipelines.evaluation.resampling import draw_seeds, holm, score_resampled, two_sided_p

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
    assert two_sided_p(differences, float(exact[3:].mean() - exact[:3].mean())) > 0.3


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
