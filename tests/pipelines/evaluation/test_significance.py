"""The paired test calls equal models different no oftener than promised, on few items too; scores are sacreBLEU's."""

import random

import numpy as np
import pytest

from dragoman.pipelines.evaluation.metrics import quick_bleu, quick_chrf
from dragoman.pipelines.evaluation.significance import compare_items, compare_translations, score_resampled

WORDS = ["a", "dog", "cat", "man", "runs", "sees", "the", "big", "small", "red", "house", "tree"]


def texts(seed: int, count: int = 60) -> list[list[str]]:
    """Returns references, and two systems that are wrong in as many words: as equal as two models can be."""
    rng = random.Random(seed)
    gold = [rng.choices(WORDS, k=rng.randint(3, 12)) for _ in range(count)]

    def translate() -> list[str]:
        rates = [rng.choice((0.05, 0.2, 0.5)) for _ in gold]
        return [
            " ".join(rng.choice(WORDS) if rng.random() < rate else word for word in row)
            for rate, row in zip(rates, gold, strict=True)
        ]

    return [[" ".join(row) for row in gold], translate(), translate()]


@pytest.mark.parametrize("count", [60, 300])
def test_equal_models_are_called_different_in_one_of_twenty_comparisons(count: int) -> None:
    rng, alarms = np.random.default_rng(count), 0
    for _ in range(500):
        sizes = rng.integers(3, 40, count)
        losses = sizes * rng.gamma(2.0, 1.0, (2, count))  # skewed, as losses of sentences are
        alarms += compare_items(losses[0], losses[1], sizes, "nats", trials=200).p_value < 0.05
    assert 0.02 < alarms / 500 <= 0.06


def test_equal_translations_are_called_different_in_one_of_twenty_comparisons() -> None:
    alarms = 0
    for seed in range(150):
        gold, first, second = texts(seed)
        alarms += compare_translations(first, second, gold, trials=100).p_value < 0.05
    assert alarms / 150 <= 0.06


def test_a_lead_in_three_of_many_sentences_is_no_proof() -> None:
    """Only three answers can be exchanged: of their eight outcomes two are as far apart, so p is near a quarter."""
    gold, first, _ = texts(1)
    second = [*gold[:3], *first[3:]]
    assert compare_translations(first, second, gold).p_value == pytest.approx(0.25, abs=0.05)


def test_a_clear_lead_has_the_smallest_p_and_its_sign() -> None:
    gold, first, _ = texts(1, 100)
    for metric in ("bleu", "chrf"):
        better = compare_translations(first, gold, gold, trials=200, metric=metric)
        assert better.p_value == pytest.approx(1 / 201) and better.difference > 5
        assert compare_translations(gold, first, gold, trials=200, metric=metric).difference == -better.difference
    sizes = np.full(100, 10)
    worse = compare_items(np.zeros(100), np.ones(100), sizes, "nats", 200)
    assert (worse.baseline, worse.candidate, worse.lower_is_better) == (0.0, 0.1, True)
    assert worse.p_value == pytest.approx(1 / 201)


def test_a_model_does_not_differ_from_itself_and_the_result_repeats() -> None:
    gold, first, second = texts(2)
    assert compare_translations(first, first, gold, trials=50).p_value == 1.0
    assert compare_translations(first, second, gold) == compare_translations(first, second, gold)
    assert compare_items(np.ones(9), np.ones(9), np.ones(9), "nats").p_value == 1.0


def test_scores_are_sacrebleus() -> None:
    gold, first, second = texts(3)
    bleu, chrf = (compare_translations(first, second, gold, trials=10, metric=metric) for metric in ("bleu", "chrf"))
    assert bleu.baseline == pytest.approx(quick_bleu(first, gold))
    assert chrf.candidate == pytest.approx(quick_chrf(second, gold))


def test_resampled_sets_are_shared_by_all_systems() -> None:
    gold, first, _ = texts(1)
    exact, drawn = score_resampled([first, first, gold], gold, "13a", 130)
    assert exact == pytest.approx([quick_bleu(first, gold), quick_bleu(first, gold), 100.0])
    assert drawn.shape == (130, 3)
    assert np.array_equal(drawn[:, 0], drawn[:, 1])
    assert drawn[:, 0].std() > 0.5
