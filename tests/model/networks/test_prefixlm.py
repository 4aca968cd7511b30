"""Translation by one stack: against one masked pass over the whole text, step by step, and through the decoder."""

import numpy as np
import pytest
import torch

from dragoman.model.decoding.search import decode
from dragoman.model.errors import UserError
from dragoman.model.layers.attention import MASKED
from dragoman.model.layers.transformer_layers import embed
from dragoman.model.networks.network import translation_loss
from dragoman.model.networks.prefixlm import PrefixConfig, PrefixTranslation, replace_bos
from dragoman.model.settings import DecodeConfig, LossConfig
from dragoman.model.text.tokenizer import BOS, EOS, PAD, SEP
from tests.model.networks.examples import PREFIXED, sentences, translation

SIZES = {"width": 16, "heads": 4, "feed_forward": 24, "layers": 3, "dropout": 0.0, "max_positions": 40}


def network(**changes: object) -> PrefixTranslation:
    torch.manual_seed(0)
    return PrefixTranslation(PrefixConfig(**{**SIZES, **changes}), 30, 30).eval()  # type: ignore[arg-type]


def one_pass(ours: PrefixTranslation, source: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition: one text of S + T tokens, no padding, through the stack at once -> states, first layer's map."""
    text = torch.cat([source, replace_bos(target)])[None]
    length, prefix = len(text[0]), len(source)
    seen = torch.ones(length, length).tril().bool()
    seen[:, :prefix] = True
    bias = torch.zeros(length, length).masked_fill(~seen, MASKED)[None, None]
    x = embed(text, ours.embedding, ours.positions, ours.dropout)
    record: list[torch.Tensor] = []
    for layer in ours.layers:
        x, _ = layer(x, None, bias, record, ours.positions.rotation(length))
    return ours.norm(x)[0, prefix:], record[0][0]


@pytest.mark.parametrize("name", PREFIXED)
def test_equals_one_masked_pass_over_source_sep_and_target(name: str) -> None:
    """Row by row, so that a sentence alone equals the sentence in a batch too."""
    ours = translation(name)
    assert isinstance(ours, PrefixTranslation)
    b = sentences(6, 3)
    states = ours(b)
    for row, length in enumerate((6, 3)):
        expected, _ = one_pass(ours, b.source[row, :length], b.target_in[row, : length + 1])
        torch.testing.assert_close(states[row, : length + 1], expected, rtol=1e-4, atol=1e-5)


def test_sep_stands_between_source_and_target() -> None:
    assert replace_bos(torch.tensor([[BOS, 7, 8, PAD]])).tolist() == [[SEP, 7, 8, PAD]]


def test_the_memory_is_the_keys_and_values_of_all_layers() -> None:
    ours = network(kv_heads=2)
    b = sentences(5, 2)
    memory = ours.encode(b.source)
    assert memory.states.shape == (2, 5, 3 * 2 * 2 * 4)
    assert memory.real.sum(1).tolist() == [5, 2]
    state = ours.start(memory, 10)
    keys, values = ours.layers[0].memory(embed(b.source, ours.embedding, ours.positions, ours.dropout), None)
    torch.testing.assert_close(state["key.0"], keys)
    torch.testing.assert_close(state["value.0"], values)


def test_maps_are_parts_of_one_distribution_that_padding_has_no_share_of() -> None:
    ours = network()
    b = sentences(5, 2)
    maps = ours.attention_maps(b)
    assert sorted(maps) == [
        *(f"decoder.{i}.{part}" for i in range(3) for part in ("cross", "self")),
        "encoder.0",
        "encoder.1",
    ]
    assert maps["decoder.0.cross"].shape == (2, 4, 6, 5)
    assert maps["decoder.0.self"].shape == (2, 4, 6, 6)
    for i in range(3):
        cross, own = maps[f"decoder.{i}.cross"], maps[f"decoder.{i}.self"]
        torch.testing.assert_close(cross.sum(-1) + own.sum(-1), torch.ones(2, 4, 6))
        assert torch.equal(own.triu(1), torch.zeros_like(own))
        assert not cross[1, :, :, 2:].any()
    assert not maps["encoder.0"][1, :, :, 2:].any()
    assert maps["encoder.0"][0].triu(1).any()  # the source is seen both ways
    _, first = one_pass(ours, b.source[0], b.target_in[0])
    torch.testing.assert_close(maps["decoder.0.cross"][0], first[:, 5:, :5])
    torch.testing.assert_close(maps["encoder.0"][0], first[:, :5, :5])


def test_every_weight_is_trained_by_the_target_alone() -> None:
    ours = network(tie=False)
    loss, _ = translation_loss(ours, sentences(5, 2), LossConfig())
    loss.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in ours.parameters())


def test_two_vocabularies_are_refused_though_they_are_of_one_size() -> None:
    with pytest.raises(
        UserError, match=r"one vocabulary, but theirs have 30 and 31 tokens\. Set tokenizer\.joint=true"
    ):
        PrefixTranslation(PrefixConfig(**SIZES), 30, 31)  # type: ignore[arg-type]
    network().check_vocabularies(joint=True)
    with pytest.raises(
        UserError, match=r"share one table, but the shards have a vocabulary a side\. Choices: tokenizer"
    ):
        network().check_vocabularies(joint=False)


def test_each_side_has_half_of_the_positions() -> None:
    ours = network()
    assert ours.max_source_positions == ours.max_target_positions == 20
    assert ours(sentences(19)).shape == (1, 20, 16)
    with pytest.raises(UserError, match=r"a source of 21 tokens is longer than the 20 that each side has of"):
        ours(sentences(21))
    with pytest.raises(UserError, match="a target of 21 tokens"):
        ours(sentences(20))
    long = np.append(np.full(50, 7), EOS)
    with pytest.raises(UserError, match="has 51 tokens, more than the model's 20 source positions"):
        decode(ours, [long], DecodeConfig(too_long="error"))
    assert len(decode(ours, [long], DecodeConfig(beam=1))[0][0].ids) <= 20
    with pytest.raises(UserError, match="max_positions=1: must be at least 2"):
        network(max_positions=1)
