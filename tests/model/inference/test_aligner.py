"""The attention of finished translations, of every translation network."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.model.alignment.attention_map import END
from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.aligner import Aligner, Encoded, cross_maps, force_targets, open_aligner, shape
from dragoman.model.inference.translator import Translation, open_translator
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.networks.prefixlm import PrefixTranslation
from dragoman.model.settings import AlignmentConfig
from dragoman.model.text.tokenizer import EOS, UNK, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train_pair
from dragoman.services.models.loaded_model import add_attention

LINES = ["the dog sees the man .", "a house is old .", "der hund sieht den mann .", "ja , gut !"]
NETWORKS = ["rnnsearch", "rnnsearch feeding", "transformer", "prefixlm"]
SIZES: dict[str, dict[str, int]] = {
    "transformer": {"width": 16, "heads": 2, "feed_forward": 16, "encoder_layers": 1, "decoder_layers": 3},
    "prefixlm": {"width": 16, "heads": 2, "feed_forward": 16, "layers": 2, "max_positions": 48},
    "rnnenc": {"embedding": 8, "width": 8},
    "rnnsearch": {"embedding": 8, "width": 8, "encoder_width": 4, "attention_width": 8},
}


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return train_pair(TokenizerConfig(type="bpe", vocabulary=60), LINES, LINES)


def make(name: str, size: int) -> TranslationNetwork:
    torch.manual_seed(1)
    architecture, *changes = name.split()
    values = {"architecture": architecture, **SIZES[architecture], **({"context": "feeding"} if changes else {})}
    network = build_network(model_config({"max_positions": 24, **values}), size, size)
    with torch.no_grad():  # sharper than at birth
        for weights in network.parameters():
            weights.mul_(2.0)
    return network.eval()


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest, tokenizers: TokenizerPair) -> TranslationNetwork:
    return make(request.param, tokenizers.source.vocabulary)


def ids(tokenizers: TokenizerPair, text: str) -> list[int]:
    return [int(number) for number in tokenizers.target.encode([text])[0]]


def test_padding_never_gets_weight_and_rows_sum_to_one(network: TranslationNetwork, tokenizers: TokenizerPair) -> None:
    pairs = [
        Encoded(np.array([7, 8, 9, 10, 11, 12, EOS]), np.array([9, 10])),
        Encoded(np.array([EOS]), np.array([], np.int64)),
        Encoded(np.array([7, UNK, EOS]), np.array([9, 10, 11, 12, 13, 14])),
    ]
    with torch.no_grad():
        raw = cross_maps(network, force_targets(pairs, 24))  # (B, L, H, T, S) as the network gives them
    layers, heads = shape(network)
    assert raw.shape == (3, layers, heads, 7, 7)
    for row, pair in enumerate(pairs):
        real = raw[row, :, :, : len(pair.target) + 1]
        assert not real[..., len(pair.source) :].any()
        if not isinstance(network, PrefixTranslation):  # there, a part of each row lies on the target itself
            np.testing.assert_allclose(real.sum(-1), 1.0, atol=1e-5)
    aligner = Aligner(network, tokenizers)
    for row, weights in aligner.weights(pairs):
        expected = raw[row, :, :, : len(pairs[row].target) + 1, : len(pairs[row].source)]
        np.testing.assert_allclose(weights, expected / expected.sum(-1, keepdims=True), atol=1e-5)
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


def test_company_in_a_batch_changes_nothing(network: TranslationNetwork, tokenizers: TokenizerPair) -> None:
    aligner = Aligner(network, tokenizers)
    lines = ["the dog", LINES[0] * 2, "old", LINES[1]]
    targets = [ids(tokenizers, text) for text in ("der hund", LINES[2], "", "ja")]
    together = aligner.maps(lines, targets)
    for line, target, found in zip(lines, targets, together, strict=True):
        (alone,) = aligner.maps([line], [target])
        assert (alone.source_tokens, alone.target_tokens) == (found.source_tokens, found.target_tokens)
        np.testing.assert_allclose(alone.weights, found.weights, atol=1e-4)


def test_maps_are_by_words_or_by_tokens(network: TranslationNetwork, tokenizers: TokenizerPair) -> None:
    line, target = LINES[0], ids(tokenizers, LINES[2])
    (words,) = Aligner(network, tokenizers).maps([line], [target])
    assert words.source_tokens == (*line.split(), END)
    assert words.target_tokens == (*LINES[2].split(), END)
    (tokens,) = Aligner(network, tokenizers, config=AlignmentConfig(units="tokens")).maps([line], [target])
    assert tokens.target_tokens == (*tokenizers.target.pieces(target), END)
    assert len(tokens.source_tokens) > len(words.source_tokens)
    for found in (words, tokens):
        assert found.weights.shape == (len(found.target_tokens), len(found.source_tokens))
        np.testing.assert_allclose(found.weights.sum(1), 1.0, atol=1e-5)
    end = tokens.weights[-1, -1]  # what the ends say to each other is theirs in both
    assert words.weights[-1, -1] == pytest.approx(end, abs=1e-5)


@pytest.mark.parametrize("line", ["", "ΩΩΩ Ω", "\u2028"])
def test_odd_lines_have_maps(network: TranslationNetwork, tokenizers: TokenizerPair, line: str) -> None:
    for target in ([], [UNK], [UNK, UNK, 9]):
        (found,) = Aligner(network, tokenizers).maps([line], [target])
        assert found.source_tokens == (*line.split(), END)
        np.testing.assert_allclose(found.weights.sum(1), 1.0, atol=1e-5)
        assert len(found.weights) == len(found.target_tokens) >= 1


def test_what_is_too_long_is_cut(network: TranslationNetwork, tokenizers: TokenizerPair) -> None:
    line = "dog man house " * 20
    target = ids(tokenizers, LINES[2] * 20)[:24]  # all positions, none left for the end
    (found,) = Aligner(network, tokenizers).maps([line], [target])
    assert 1 < len(found.source_tokens) < 25
    assert found.source_tokens[-1] == END
    assert found.target_tokens[-1] != END
    np.testing.assert_allclose(found.weights.sum(1), 1.0, atol=1e-5)
    (longer,) = Aligner(network, tokenizers).maps(["dog"], [target * 2])
    assert longer.weights.shape == (len(found.target_tokens), 2)


def test_the_mean_of_the_last_layer_but_one_is_shown_unless_another_is_chosen(tokenizers: TokenizerPair) -> None:
    size = tokenizers.source.vocabulary
    assert str(Aligner(make("transformer", size), tokenizers).head) == "l1"
    assert str(Aligner(make("rnnsearch", size), tokenizers).head) == "l0h0"
    aligner = Aligner(make("transformer", size), tokenizers, config=AlignmentConfig(head="mean", reading="input"))
    assert (str(aligner.head), aligner.reading) == ("mean", "input")


def test_a_network_without_attention_says_so(tokenizers: TokenizerPair) -> None:
    with pytest.raises(UserError, match="rnnenc: this network has no attention"):
        Aligner(make("rnnenc", tokenizers.source.vocabulary), tokenizers)


def test_broken_weights_are_no_alignment(tokenizers: TokenizerPair) -> None:
    network = make("rnnsearch", tokenizers.source.vocabulary)
    with torch.no_grad():
        for weights in network.parameters():
            weights.fill_(torch.nan)
    with pytest.raises(FloatingPointError):
        Aligner(network, tokenizers).maps(["dog"], [[9]])


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_bundles_translations_are_aligned_whatever_engine_made_them(
    tmp_path: Path, tokenizers: TokenizerPair, engine: str
) -> None:
    network = make("transformer", tokenizers.source.vocabulary)
    facts = {"pair": "en-de", "decode": {"beam": 2, "max_extra": 4, "max_ratio": 1.0}}
    save_bundle(
        tmp_path / "b", network=network, config=network.config, tokenizers=tokenizers, facts=facts, exports=["float32"]
    )
    bundle = load_bundle(tmp_path / "b")
    lines = [LINES[0], "", LINES[1]]
    translations = open_translator(bundle, engine).translate(lines)  # type: ignore[arg-type]  # one of its literals
    first, empty, last = add_attention(open_aligner(bundle), lines, translations)
    assert empty == Translation("", 0.0)
    assert (first.text, first.attention[0].head) == (translations[0].text, "l1")
    assert first.attention[0].source_tokens == (*LINES[0].split(), END)
    assert last.attention[0].source_tokens == (*LINES[1].split(), END)
    assert "".join(first.attention[0].target_tokens[:-1]) == first.text.replace(" ", "")
