import numpy as np
import pytest
import torch

from dragoman.model.networks.rnnenc import EncoderDecoder, EncoderDecoderConfig
from dragoman.model.networks.rnnsearch import RNNSearch, RNNSearchConfig
from dragoman.model.text.tokenizer import EOS
from dragoman.pipelines.comparison.sentences import STATES, map_sentences, pick_evenly, state_sentences
from dragoman.pipelines.comparison.states import explained_variance, nearest_alike, sentence_states

SOURCES = [np.array([6, 7, 8, EOS]), np.array([9, EOS])]


def test_neighbours_of_one_meaning_are_counted() -> None:
    states = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.1, 3.0]])
    assert nearest_alike(states, [0, 0, 1, 1]) == 1.0
    assert nearest_alike(states, [0, 1, 0, 1]) == 0.0


def test_a_plane_holds_all_of_two_dimensions() -> None:
    rng = np.random.default_rng(1)
    assert explained_variance(rng.normal(size=(10, 2))) == pytest.approx(1.0)
    assert explained_variance(np.ones((4, 3))) == 1.0
    assert explained_variance(np.eye(5)) == pytest.approx(0.5)


def test_a_fixed_context_is_all_that_the_decoder_starts_from() -> None:
    torch.manual_seed(1)
    network = EncoderDecoder(EncoderDecoderConfig(embedding=4, width=6, layers=2, cell="lstm"), 12, 12).eval()
    states = sentence_states(network, SOURCES)
    assert states.shape == (2, 2 * 2 * 6)
    alone = sentence_states(network, SOURCES[1:])
    np.testing.assert_allclose(states[1:], alone, atol=1e-6)


def test_a_mean_of_annotations_leaves_padding_out() -> None:
    torch.manual_seed(1)
    network = RNNSearch(RNNSearchConfig(embedding=4, width=6, encoder_width=3), 12, 12).eval()
    states = sentence_states(network, SOURCES)
    assert states.shape == (2, 6)
    memory = network.encode(torch.tensor(SOURCES[1])[None])
    np.testing.assert_allclose(states[1], memory.states[0].mean(0).detach().numpy(), atol=1e-6)


def test_our_sentences_have_three_ways_to_say_each_thing() -> None:
    for language in STATES:
        texts, meanings = state_sentences([], language, [])
        assert len(set(texts)) == len(texts) == 12
        assert [meanings.count(number) for number in range(4)] == [3, 3, 3, 3]


def test_sentences_of_the_user_come_first_and_once() -> None:
    assert state_sentences(["a", "b", "a"], "en", []) == (["a", "b"], [0, 0])
    assert map_sentences(["x", "x"], ["held out"], 3) == ["x"]


def test_without_ours_the_held_out_set_gives_some() -> None:
    sources = ["", *(f"word {number} " * 5 for number in range(40)), *["long " * 30] * 3]
    chosen, _ = state_sentences([], "fr", sources)
    assert len(chosen) == 12
    assert all(len(text.split()) <= 14 for text in chosen)
    assert len(map_sentences([], sources, 3)) == 3


def test_spread_takes_the_first_and_the_last() -> None:
    assert pick_evenly([1, 2, 3, 4, 5], 3) == [1, 3, 5]
    assert pick_evenly([1], 3) == [1]
    assert pick_evenly([1, 2], 1) == [1]
