"""Texts as vectors: of each kind of bundle, whatever the company of a text."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from dragoman.model.bundles.directory import Bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.vectors import save_vectors
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import KINDS, Kind, open_bundle
from dragoman.model.inference.sentence_vectors import (
    NetworkVectors,
    Reader,
    WordVectors,
    network_vectors,
    sentence_vectors,
)
from dragoman.model.networks.architectures import build_network
from dragoman.model.networks.bert import EncoderOnly, EncoderOnlyConfig
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.networks.heads import RecurrentHeadConfig, TransformerHeadConfig
from dragoman.model.networks.language_network import BEFORE
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.networks.prefixlm import PrefixConfig
from dragoman.model.networks.rnnenc import EncoderDecoderConfig
from dragoman.model.networks.rnnlm import RecurrentLanguageConfig
from dragoman.model.networks.rnnsearch import RNNSearchConfig
from dragoman.model.networks.statelm import StateLanguageConfig
from dragoman.model.networks.transformer import TransformerConfig
from dragoman.model.text.tokenizer import EOS, Tokenizer, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train_pair
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.word2vec import Word2VecConfig

LINES = ["the dog sees the man .", "a house is old .", "where is my friend ?"]
SMALL = {"width": 8, "heads": 2, "feed_forward": 8, "dropout": 0.5}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Words."""
    return train_pair(TokenizerConfig(type="words", vocabulary=60), LINES, LINES).source


def bert(tokenizer: Tokenizer, most: int = 12) -> EncoderOnly:
    torch.manual_seed(0)
    return EncoderOnly(EncoderOnlyConfig(**SMALL, layers=2, max_positions=most), tokenizer.vocabulary)  # type: ignore[arg-type]


def test_a_vector_is_the_mean_of_the_states_and_no_neighbour_changes_it(tokenizer: Tokenizer) -> None:
    network = bert(tokenizer)
    vectors = NetworkVectors(network, tokenizer, 12)
    together = vectors([*LINES, "dog"])
    assert together.shape == (4, 8)
    assert together.dtype == np.float32
    for text, found in zip([*LINES, "dog"], together, strict=True):
        ids = torch.tensor([[*tokenizer.encode([text])[0].tolist(), EOS]])
        np.testing.assert_allclose(found, network.encode(ids)[0].mean(0).detach(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found, vectors([text])[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(NetworkVectors(network, tokenizer, 12, batch_tokens=1)(LINES), together[:3], atol=1e-5)


def test_empty_and_unknown_texts(tokenizer: Tokenizer) -> None:
    found = NetworkVectors(bert(tokenizer), tokenizer, 12)(["", "  ", "xyzzy plugh"])
    assert not found[:2].any()
    assert found[2].any()
    assert NetworkVectors(bert(tokenizer), tokenizer, 12)([]).shape == (0, 8)


def test_what_is_longer_than_the_positions_is_cut_or_refused(tokenizer: Tokenizer) -> None:
    vectors = NetworkVectors(bert(tokenizer, 4), tokenizer, 4)
    np.testing.assert_allclose(vectors(["the dog sees the man ."]), vectors(["the dog sees"]), rtol=1e-5)
    strict = NetworkVectors(bert(tokenizer, 4), tokenizer, 4, too_long="error")
    assert strict(["the dog sees"]).shape == (1, 8)
    with pytest.raises(UserError, match="x, line 2: the text has 5 tokens, more than the model's 4 positions"):
        strict(["the dog", "the dog sees the"], ["x, line 1", "x, line 2"])


def test_broken_weights_are_named(tokenizer: Tokenizer) -> None:
    network = bert(tokenizer)
    vectors = NetworkVectors(network, tokenizer, 12)
    network.embedding.weight.data[tokenizer.encode(["dog"])[0][0]] = float("nan")
    with pytest.raises(FloatingPointError, match=r"text 2: .* not a number"):
        vectors(["house", "dog"])


@pytest.mark.parametrize(("name", "width"), [("transformer", 8), ("rnnenc", 2 * 2 * 8), ("prefixlm", 8)])
def test_translation_networks_give_what_their_encoder_says(name: str, width: int, tokenizer: Tokenizer) -> None:
    """The mean of the states; of the fixed context all of it: hidden state and cell of two layers."""
    network = cast("TranslationNetwork", network_of(name, tokenizer))
    vectors = NetworkVectors(network, tokenizer, 20)
    assert vectors.width == width
    ids = torch.tensor([[*tokenizer.encode([LINES[1]])[0].tolist(), EOS]])
    states = network.encode(ids).states[0].detach()
    if name != "prefixlm":  # whose memory is keys and values
        expected = states.flatten() if name == "rnnenc" else states.mean(0)
        np.testing.assert_allclose(vectors(LINES)[1], expected, rtol=1e-4, atol=1e-5)


def test_word_vectors_are_averaged_over_known_words(tokenizer: Tokenizer) -> None:
    words, table = ["dog", "man", "is"], np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]], np.float32)
    found = WordVectors(Embeddings(words, None, table), tokenizer)(["dog man", "dog xyzzy", "", "house"])
    assert found.tolist() == [[0.5, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    counted = WordVectors(Embeddings(words, None, table, np.array([1.0, 2.0, 1.0]), "words"), tokenizer)
    assert counted.width == 3
    assert counted(["man man dog"]).tolist() == [[1.0, 4.0, 0.0]]


CONFIGS: dict[str, Any] = {
    "bert": EncoderOnlyConfig(**SMALL, layers=2, max_positions=12),
    "gpt": DecoderOnlyConfig(**SMALL, layers=2, max_positions=12),
    "rnnlm": RecurrentLanguageConfig(embedding=6, width=8, layers=2, past=3),
    "linear": StateLanguageConfig(**SMALL, layers=2),
    "selective": StateLanguageConfig(width=8, feed_forward=8, layers=2, mixer="selective"),
    "transformer": TransformerConfig(**SMALL, encoder_layers=2, decoder_layers=1),
    "prefixlm": PrefixConfig(**SMALL, layers=3),
    "rnnenc": EncoderDecoderConfig(embedding=6, width=8, layers=2, reverse_source=True),
    "rnnsearch": RNNSearchConfig(embedding=6, width=8, encoder_width=4, encoder_layers=2, attention_width=5),
    "transformer_head": TransformerHeadConfig(**SMALL, layers=2),
    "recurrent_head": RecurrentHeadConfig(embedding=6, width=4, layers=2),
}


def network_of(name: str, tokenizer: Tokenizer) -> Reader:
    torch.manual_seed(0)
    return cast("Reader", build_network(CONFIGS[name], tokenizer.vocabulary, tokenizer.vocabulary).eval())


@pytest.mark.parametrize("name", CONFIGS)
def test_every_network_gives_the_states_of_each_layer_for_each_token(name: str, tokenizer: Tokenizer) -> None:
    network = network_of(name, tokenizer)
    texts = [*LINES, "dog", ""]
    for layer, width in ((0, 6 if hasattr(CONFIGS[name], "embedding") else 8), (1, 8), (2, 8), (-1, 8)):
        found = NetworkVectors(network, tokenizer, 12, layer=layer).tokens(texts)
        assert [one.vectors.shape for one in found] == [(len(ids), width) for ids in tokenizer.encode(texts)]
        assert found[0].pieces == ["the", "dog", "sees", "the", "man", "."]
        first, _, _, second, *_ = found[0].vectors
        if layer == 0:  # the embeddings see no neighbour; recurrent networks add no positions to them
            assert np.allclose(first, second) is (width == 6 or name == "selective")
        else:
            assert not np.allclose(first, second, atol=1e-4)
    with pytest.raises(UserError, match=r"embed\.layer=3: the network has the layers 0 \(its embeddings\) to 2"):
        NetworkVectors(network, tokenizer, 12, layer=3)
    with pytest.raises(UserError, match=r"embed\.layer=-4: "):
        NetworkVectors(network, tokenizer, 12, layer=-4)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_text_has_the_same_bytes_in_any_company(name: str, tokenizer: Tokenizer) -> None:
    words = [word for line in LINES for word in line.split()]
    texts = [" ".join(words[start : start + 1 + start % 7]) for start in range(len(words))] * 4
    vectors = NetworkVectors(network_of(name, tokenizer), tokenizer, 12)
    alone = b"".join(vectors([text]).tobytes() for text in texts)
    tokens = [vectors.tokens([text])[0].vectors.tobytes() for text in texts]
    for size in (7, 64):
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        assert b"".join(vectors(part).tobytes() for part in parts) == alone
        assert [one.vectors.tobytes() for part in parts for one in vectors.tokens(part)] == tokens


def test_a_layers_states_are_the_networks_own(tokenizer: Tokenizer) -> None:
    network = bert(tokenizer).eval()
    ids = torch.tensor([[*tokenizer.encode([LINES[0]])[0].tolist(), EOS]])
    states = network.encode(ids)[0].detach().numpy()
    vectors = NetworkVectors(network, tokenizer, 12, layer=-1)
    np.testing.assert_allclose(vectors.tokens(LINES[:1])[0].vectors, states[:-1], atol=1e-6)
    np.testing.assert_allclose(vectors(LINES[:1])[0], states.mean(0), atol=1e-6)


def test_a_language_models_states_see_nothing_later(tokenizer: Tokenizer) -> None:
    network = cast("DecoderOnly", network_of("gpt", tokenizer))
    ids = torch.tensor([[BEFORE, *tokenizer.encode([LINES[0]])[0].tolist()]])
    vectors = NetworkVectors(network, tokenizer, 12)
    whole, begun = vectors.tokens([LINES[0], "the dog sees"])
    with torch.inference_mode():
        expected, _ = network.read(ids, {})
        np.testing.assert_allclose(network.logits(torch.from_numpy(whole.vectors[-1])), expected[0], atol=1e-5)
    np.testing.assert_allclose(vectors(LINES[:1])[0], whole.vectors.mean(0), atol=1e-6)
    np.testing.assert_allclose(begun.vectors, whole.vectors[:3], atol=1e-6)


def test_each_kind_of_bundle_is_opened(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pair = TokenizerPair(tokenizer, tokenizer)
    network = bert(tokenizer)
    save_bundle(tmp_path / "bert", network=network, config=network.config, tokenizers=tokenizer, facts={"pair": "en"})
    np.testing.assert_allclose(
        sentence_vectors(open_bundle(tmp_path / "bert"))(LINES),
        NetworkVectors(network, tokenizer, 12)(LINES),
        rtol=1e-5,
    )
    config = PrefixConfig(**SMALL, layers=1)  # type: ignore[arg-type]
    translation = build_network(config, tokenizer.vocabulary, tokenizer.vocabulary)
    save_bundle(tmp_path / "prefixlm", network=translation, config=config, tokenizers=pair, facts={"pair": "en-de"})
    assert sentence_vectors(open_bundle(tmp_path / "prefixlm"))(LINES).shape == (3, 8)
    save_vectors(
        tmp_path / "vectors", words=["dog", "man"], counts=np.array([2, 1]), tables={"vectors": np.eye(2)},
        config=Word2VecConfig(width=2), tokenizer=pair, facts={"pair": "en"},
    )  # fmt: skip
    assert sentence_vectors(open_bundle(tmp_path / "vectors"))(["dog"]).tolist() == [[1.0, 0.0]]
    gpt = DecoderOnlyConfig(**SMALL, layers=1, max_positions=12)  # type: ignore[arg-type]
    model = build_network(gpt, tokenizer.vocabulary, tokenizer.vocabulary)
    save_bundle(tmp_path / "gpt", network=model, config=gpt, tokenizers=tokenizer, facts={"pair": "en"})
    assert sentence_vectors(open_bundle(tmp_path / "gpt"))(LINES).shape == (3, 8)
    with pytest.raises(UserError, match="word vectors have no layers"):
        sentence_vectors(open_bundle(tmp_path / "vectors"), layer=1)
    with pytest.raises(UserError, match="word vectors have no layers"):
        network_vectors(open_bundle(tmp_path / "vectors"))


def test_a_kind_without_vectors_of_texts_is_refused_with_those_that_have_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text('{"format_version": 2, "kind": "matching"}', encoding="utf-8")
    monkeypatch.setitem(
        KINDS, "matching", Kind("", "", lambda folder: Bundle(directory=folder, model={}, pair="en"), list)
    )
    with pytest.raises(UserError, match="'matching', which makes no vectors of texts; those of translation, language"):
        sentence_vectors(open_bundle(tmp_path))
