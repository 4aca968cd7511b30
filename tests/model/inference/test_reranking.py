"""The tuner: BLEU is sacreBLEU's, a line search finds what trying every place finds, known optima are reached."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import SentenceBleu, bleu, tokeniser
from dragoman.model.inference.mert import envelopes
from dragoman.model.inference.reranking import Lists, TunerConfig, line_search, pool_deviations, tune, winners

WORDS = ["the", "dog", "sees", "a", "man", ",", "who", "is", "old", "and", "has", "one", "house", "in", "town", "."]


def sentence(rng: np.random.Generator, low: int = 3, high: int = 14) -> str:
    return " ".join(rng.choice(WORDS, rng.integers(low, high)))


def lists(seed: int = 0, count: int = 12, size: int = 9, features: int = 3) -> Lists:
    rng = np.random.default_rng(seed)
    counter = SentenceBleu()
    rows = []
    for _ in range(count):
        reference = sentence(rng, 8, 14).split()
        hypotheses = []
        for _ in range(size):
            keep = rng.random(len(reference)) < rng.uniform(0.4, 1.0)
            hypotheses.append(" ".join(np.where(keep, reference, rng.choice(WORDS, len(reference)))))
        rows.append(counter.statistics(hypotheses, " ".join(reference)))
    statistics = np.concatenate(rows)
    return Lists(rng.standard_normal((count * size, features)), statistics, np.arange(count + 1) * size)


@pytest.mark.parametrize("tokenize", ["13a", "char", "none"])
def test_bleu_of_summed_statistics_is_sacrebleus(tokenize: str) -> None:
    rng = np.random.default_rng(0)
    for low, high in ((3, 14), (1, 4), (8, 20), (0, 3)):
        for _ in range(8):
            ours = [sentence(rng, low, high) for _ in range(4)]
            theirs = [sentence(rng, 1, 12) for _ in range(4)]
            counter = SentenceBleu(tokenize)
            statistics = sum(counter.statistics([one], other) for one, other in zip(ours, theirs, strict=True))
            expected = BLEU(tokenize=tokenize, force=True).corpus_score(ours, [theirs])
            assert bleu(np.asarray(statistics))[0] == pytest.approx(expected.score, abs=1e-9)
    metric = BLEU(tokenize=tokenize, force=True)
    metric.corpus_score(ours, [theirs])
    assert counter.signature == str(metric.get_signature())


def test_a_perfect_translation_has_100_and_an_empty_one_0() -> None:
    counter = SentenceBleu()
    assert bleu(counter.statistics(["the dog sees a man ."], "the dog sees a man ."))[0] == pytest.approx(100)
    assert bleu(counter.statistics(["", "zebra"], "the dog sees a man .")).tolist() == [0, 0]
    with pytest.raises(UserError, match="3 columns"):
        bleu(np.zeros((1, 3)))
    assert tokeniser("auto", "th") == "char"
    with pytest.raises(UserError, match=r"rerank\.tokenize.*'13b'"):
        tokeniser("13b", "en", "rerank.tokenize")


def test_the_envelope_is_the_best_line_everywhere() -> None:
    rng = np.random.default_rng(2)
    offsets = np.array([0, 1, 8, 40, 43])
    heights = rng.integers(-4, 5, 43).astype(float)  # small whole numbers: many equal slopes and heights
    slopes = rng.integers(-3, 4, 43).astype(float)
    first, later, places = envelopes(heights, slopes, offsets)
    for g in np.append(rng.uniform(-12, 12, 300), [-1e6, 1e6]):
        expected = winners(heights + g * slopes, offsets)
        found = first.copy()
        owner = np.searchsorted(offsets, later, side="right") - 1
        for line, each, place in zip(later, owner, places, strict=True):
            if g > place:
                found[each] = line
        np.testing.assert_allclose((heights + g * slopes)[found], (heights + g * slopes)[expected])


def test_a_line_search_is_exact() -> None:
    for seed in range(3):
        data = lists(seed)
        rng = np.random.default_rng(seed)
        point, direction = rng.standard_normal(3), rng.standard_normal(3)
        step, value = line_search(data, point, direction)
        assert data.bleu(point + step * direction) == pytest.approx(value, abs=1e-6)
        tried = [data.bleu(point + g * direction) for g in np.linspace(-20, 20, 1001)]
        assert value >= max(tried) - 1e-6


def test_a_known_optimum_is_found() -> None:
    """Feature 0 misleads, feature 1 is quality times ten with noise that feature 2 takes away again."""
    data = lists(3, count=20)
    rng = np.random.default_rng(1)
    quality = bleu(data.statistics)
    noise = 40 * rng.standard_normal(len(quality))
    features = np.stack([-quality, 10 * (quality + noise), noise], 1)
    known = Lists(features, data.statistics, data.offsets)
    oracle = known.bleu(np.array([0.0, 1.0, -10.0]))  # 10 quality
    tuned = tune(known, [np.array([1.0, 0.0, 0.0])])
    assert known.bleu(np.array([1.0, 0.0, 0.0])) < oracle - 20
    assert tuned.bleu >= oracle - 1e-6
    assert tuned.bleu == pytest.approx(known.bleu(tuned.weights), abs=1e-6)
    assert np.abs(tuned.weights).sum() == pytest.approx(1)


def test_the_same_seed_gives_the_same_weights_and_no_worse_than_the_start() -> None:
    data = lists(4)
    start = np.array([0.0, 1.0, 0.0])
    first, second = (tune(data, [start], TunerConfig(restarts=3, seed=7)) for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert first.searches == second.searches
    assert len(first.searches) == 4
    assert first.bleu >= data.bleu(start)


def test_of_own_length_only_the_references_length_is_another() -> None:
    data = lists(6)
    own, first = data.match_lengths(), data.offsets[:-1]
    np.testing.assert_array_equal(own.statistics[:, :-1], data.statistics[:, :-1])
    assert own.statistics[first, -1].sum() == pytest.approx(data.statistics[first, -2].sum())
    relative = own.statistics[:, -1] / data.statistics[:, -1]
    np.testing.assert_allclose(relative, relative[0])
    empty = Lists(data.features, np.where(np.arange(10) == 8, 0, data.statistics), data.offsets)
    assert empty.match_lengths() is empty


def test_where_references_are_longer_own_length_does_not_follow_them() -> None:
    """A choice between a short text and one with a wrong word more; the references are longer than both."""
    counter = SentenceBleu()
    pair = counter.statistics(["a b c d e f g h", "a b c d e f g h x"], "a b c d e f g h i j k l")
    data = Lists(np.tile([[1.0, 0.0], [0.0, 1.0]], (5, 1)), np.tile(pair, (5, 1)), np.arange(6) * 2)
    start = [np.array([0.5, 0.4])]
    by_references, by_own = (tune(each, start).weights for each in (data, data.match_lengths()))
    assert by_references[1] > by_references[0]
    assert by_own[0] > by_own[1]


def test_the_size_of_a_feature_does_not_matter() -> None:
    data = lists(5)
    factors = np.array([1e-3, 1.0, 1e4])
    moved = np.repeat(np.random.default_rng(0).standard_normal((12, 3)), 9, axis=0)  # the same for a whole list
    other = Lists((data.features + moved) * factors, data.statistics, data.offsets)
    np.testing.assert_allclose(pool_deviations(other), pool_deviations(data) * factors)
    plain, scaled = tune(data, [np.ones(3)]), tune(other, [1 / factors])
    assert scaled.bleu == pytest.approx(plain.bleu, abs=0.5)
    assert other.bleu(scaled.weights) == pytest.approx(scaled.bleu, abs=1e-6)


def test_features_that_never_differ_and_lists_of_one_do_no_harm() -> None:
    data = lists(6, count=3, size=1)
    tuned = tune(Lists(np.ones((3, 2)), data.statistics, data.offsets), [np.array([1.0, 0.0])])
    assert tuned.bleu == pytest.approx(float(bleu(data.statistics.sum(0))))
    assert tuned.weights.tolist() == [1.0, 0.0]


def test_of_equals_the_first_wins() -> None:
    assert winners(np.array([1.0, 3.0, 3.0, 0.0, -1.0, 0.0]), np.array([0, 3, 6])).tolist() == [1, 3]


def test_mistakes_are_refused() -> None:
    data = lists(0)
    with pytest.raises(UserError, match="finite"):
        Lists(np.full((108, 3), np.nan), data.statistics, data.offsets)
    with pytest.raises(UserError, match="a hypothesis in every list"):
        Lists(data.features, data.statistics, np.array([0, 4, 4, 108]))
    with pytest.raises(UserError, match="no weights to begin from"):
        tune(data, [])
    with pytest.raises(UserError, match=r"tuner\.restarts=-1"):
        tune(data, [np.ones(3)], TunerConfig(restarts=-1))
