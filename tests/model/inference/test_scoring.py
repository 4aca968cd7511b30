"""Log-probabilities of given pairs: against the definition by hand, the search's own scores, and one by one."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dragoman.model.decoding.search import decode
from dragoman.model.errors import UserError
from dragoman.model.inference.scoring import PairScore, Scorer, score_pairs
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.batch import collate
from dragoman.model.text.tokenizer import EOS, MASK, PAD, UNK, TokenizerConfig
from dragoman.model.text.tokenizers import train_pair

V = 23


NETWORKS = {
    "transformer": {"width": 16, "heads": 2, "feed_forward": 32},
    "prefixlm": {"width": 16, "heads": 2, "feed_forward": 32, "layers": 2, "max_positions": 80},
    "rnnenc": {"embedding": 12, "width": 16},
    "rnnsearch": {"embedding": 12, "encoder_width": 8, "width": 16, "attention_width": 8},
}


def make(name: str, seed: int = 3) -> TranslationNetwork:
    torch.manual_seed(seed)
    network = build_network(model_config({"architecture": name, "max_positions": 40, **NETWORKS[name]}), V, V)
    with torch.no_grad():  # sharper than at birth, so that scores differ
        for table in network.parameters():
            table.mul_(1.5)
    return network


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> TranslationNetwork:
    return make(request.param)


def pairs(count: int = 12, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    drawn = [np.append(rng.integers(6, V, rng.integers(0, 15)), EOS) for _ in range(2 * count)]
    return drawn[:count], drawn[count:]


def test_the_score_is_the_sum_of_log_softmax_of_the_given_tokens(network: TranslationNetwork) -> None:
    sources, targets = pairs()
    found = score_pairs(network, sources, targets)
    network.eval()
    for source, target, score in zip(sources, targets, found, strict=True):
        with torch.no_grad():
            logits = network.logits(network(collate([source], [target], [0])))[0].double().numpy()  # (T, V)
        by_hand = np.log(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))[range(len(target)), target]
        np.testing.assert_allclose(score.log_probabilities, by_hand, atol=3e-5)
        assert score.log_probability == pytest.approx(by_hand.sum(), abs=1e-4)
        assert (score.tokens, score.ids[-1], score.truncated) == (len(target), EOS, False)
        assert score.mean == pytest.approx(score.log_probability / len(target))


@pytest.mark.parametrize("beam", [1, 4])
def test_a_hypothesis_has_the_searchs_own_log_probability(network: TranslationNetwork, beam: int) -> None:
    sources, _ = pairs()
    config = DecodeConfig(beam=beam, nbest=beam, length_penalty=0.6, min_length=2, max_ratio=1.0, max_extra=4)
    found = [(x, one) for x, each in zip(sources, decode(network, sources, config), strict=True) for one in each]
    chosen, targets = [x for x, _ in found], [np.array([*one.ids, EOS]) for _, one in found]
    scores = score_pairs(network, chosen, targets, search=config)
    ours = [sum(score.log_probabilities[: one.length]) for score, (_, one) in zip(scores, found, strict=True)]
    assert ours == pytest.approx([one.log_probability for _, one in found], abs=1e-4)
    plain = score_pairs(network, chosen, targets)
    assert all(whole.log_probability < own.log_probability for whole, own in zip(plain, scores, strict=True))


def test_batches_change_nothing(network: TranslationNetwork) -> None:
    sources, targets = pairs(30)
    together = score_pairs(network, sources, targets)
    alone = [score_pairs(network, [x], [y])[0] for x, y in zip(sources, targets, strict=True)]
    small = score_pairs(network, sources, targets, batch_tokens=1)
    for one, other, third in zip(together, alone, small, strict=True):
        assert one.ids == other.ids == third.ids
        np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=2e-5)
        np.testing.assert_allclose(one.log_probabilities, third.log_probabilities, atol=2e-5)


def test_the_training_mode_is_put_back_and_has_no_say() -> None:
    network = make("transformer").train()
    sources, targets = pairs(4)
    assert score_pairs(network, sources, targets) == score_pairs(network, sources, targets)
    assert network.training


def test_an_empty_target_is_the_end_of_sentence_alone(network: TranslationNetwork) -> None:
    (score,) = score_pairs(network, [np.array([7, 8, EOS])], [np.array([EOS])])
    assert (score.tokens, score.ids, score.unknown) == (1, (EOS,), 0)
    assert -50 < score.log_probability < 0
    assert score_pairs(network, [], []) == []


def test_unknown_and_special_tokens_are_scored_like_any_other() -> None:
    network = make("transformer")
    source, target = np.array([UNK, EOS]), np.array([UNK, 9, MASK, PAD, EOS, UNK, EOS])
    (score,) = score_pairs(network, [source], [target])
    assert (score.unknown, score.tokens) == (2, 7)
    assert all(math.isfinite(value) for value in score.log_probabilities)
    (searched,) = score_pairs(network, [source], [target], search=DecodeConfig())
    assert searched.log_probability == -math.inf
    assert math.isfinite(
        score_pairs(network, [source], [target[[0, 1, 6]]], search=DecodeConfig(allow_unknown=True))[0].log_probability
    )


@pytest.mark.parametrize("side", ["source", "target"])
def test_what_is_too_long_is_refused_by_name_or_cut(side: str) -> None:
    network = make("transformer")
    short, long = np.array([8, 9, EOS]), np.append(np.arange(100) % 10 + 6, EOS)
    sources, targets = ([short, long], [short, short]) if side == "source" else ([short, short], [short, long])
    with pytest.raises(UserError, match=rf"in\.tsv, line 7: the {side} has 101 tokens, more than .* 40 {side}"):
        score_pairs(network, sources, targets, places=["in.tsv, line 3", "in.tsv, line 7"])
    first, second = score_pairs(network, sources, targets, too_long="truncate")
    assert (first.truncated, second.truncated) == (False, True)
    assert second.tokens == (3 if side == "source" else 40)


def test_a_broken_network_is_said() -> None:
    network = make("transformer")
    with torch.no_grad():
        next(iter(network.parameters())).fill_(math.nan)
    with pytest.raises(FloatingPointError, match="pair 1: the network's output is not a number"):
        score_pairs(network, [np.array([8, EOS])], [np.array([9, EOS])])


def test_text_is_normalised_and_encoded_as_in_training() -> None:
    lines = ["ein haus", "a house é"]
    tokenizers = train_pair(TokenizerConfig(type="characters", vocabulary=40), lines, lines)
    size = tokenizers.source.vocabulary
    torch.manual_seed(1)
    network = Transformer(TransformerConfig(width=16, heads=2, feed_forward=16, max_positions=40), size, size)
    scorer = Scorer(network, tokenizers)
    spaced, plain, empty = scorer.score([" ein\thaus", "ein haus", ""], ["a  house e\u0301 ", "a house é", ""])
    assert spaced.ids == plain.ids
    assert spaced.log_probability == pytest.approx(plain.log_probability, abs=1e-5)
    assert scorer.pieces(plain)[-1] == "</s>"
    assert len(scorer.pieces(plain)) == plain.tokens == len("a house é") + 1
    assert empty.tokens == 1


def test_a_score_is_its_tokens_together() -> None:
    score = PairScore((7, UNK, EOS), (-1.0, -2.0, -0.5))
    assert (score.log_probability, score.tokens, score.unknown) == (-3.5, 3, 1)
    assert score.mean == pytest.approx(-3.5 / 3)
    assert replace(score, truncated=True).truncated
