"""The tuner: BLEU is sacreBLEU's, known optima are reached."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import SentenceBleu, bleu, tokeniser
from dragoman.model.inference.reranking import Lists, deviations, tune, winners

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


def test_a_known_optimum_is_found() -> None:
    """Their score misleads; ours is quality with noise that the length takes away again."""
    data = lists(3, count=20)
    quality = bleu(data.statistics)
    noise = quality.std() * np.random.default_rng(1).standard_normal(len(quality))
    known = Lists(np.stack([-quality, 10 * (quality + noise), noise], 1), data.statistics, data.offsets)
    oracle = known.bleu(np.array([0.0, 1.0, -10.0]))
    weights = tune(known)
    assert known.bleu(np.array([1.0, 0.0, 0.0])) < oracle - 20
    assert known.bleu(weights) >= oracle - 1
    assert np.abs(weights).sum() == pytest.approx(1)


def test_tuned_weights_are_no_worse_than_their_score_alone_or_equal_weights() -> None:
    for seed in range(4):
        data = lists(seed)
        tuned = data.bleu(tune(data))
        assert tuned >= data.bleu(np.array([1.0, 0.0, 0.0]))
        assert tuned >= data.bleu(np.array([1.0, 1.0, 0.0]))


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
    data = Lists(np.tile([[1.0, 0.0, 8.0], [0.0, 1.0, 9.0]], (5, 1)), np.tile(pair, (5, 1)), np.arange(6) * 2)
    by_references, by_own = (tune(each) for each in (data, data.match_lengths()))
    assert data.features[winners(data.features @ by_references, data.offsets)][0].tolist() == [0, 1, 9]
    assert data.features[winners(data.features @ by_own, data.offsets)][0].tolist() == [1, 0, 8]


def test_the_size_of_a_feature_does_not_matter() -> None:
    data = lists(5)
    factors = np.array([1e-3, 1.0, 1e4])
    moved = np.repeat(np.random.default_rng(0).standard_normal((12, 3)), 9, axis=0)  # the same for a whole list
    other = Lists((data.features + moved) * factors, data.statistics, data.offsets)
    np.testing.assert_allclose(deviations(other), deviations(data) * factors)
    assert other.bleu(tune(other)) == pytest.approx(data.bleu(tune(data)), abs=0.5)


def test_features_that_never_differ_and_lists_of_one_do_no_harm() -> None:
    data = lists(6, count=3, size=1)
    assert tune(Lists(np.ones((3, 3)), data.statistics, data.offsets)).tolist() == [1.0, 0.0, 0.0]


def test_of_equals_the_first_wins() -> None:
    assert winners(np.array([1.0, 3.0, 3.0, 0.0, -1.0, 0.0]), np.array([0, 3, 6])).tolist() == [1, 3]


def test_mistakes_are_refused() -> None:
    data = lists(0)
    with pytest.raises(UserError, match="finite"):
        Lists(np.full((108, 3), np.nan), data.statistics, data.offsets)
    with pytest.raises(UserError, match="a hypothesis in every list"):
        Lists(data.features, data.statistics, np.array([0, 4, 4, 108]))
