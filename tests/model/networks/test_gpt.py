"""The decoder-only language model against torch's layers with the same weights, and step by step against itself."""

import numpy as np
import pytest
import torch
from torch import nn

from dragoman.model.errors import UserError
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.networks.language_network import language_loss
from dragoman.model.settings import LossConfig
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import UNK
from tests.model.networks.examples import texts, torch_layers

SIZES = {"width": 16, "heads": 4, "feed_forward": 24, "layers": 2, "dropout": 0.0, "max_positions": 12}


def network(**changes: object) -> DecoderOnly:
    torch.manual_seed(0)
    return DecoderOnly(DecoderOnlyConfig(**{**SIZES, **changes}), 30).eval()  # type: ignore[arg-type]


def test_equals_torchs_layers_with_the_same_weights() -> None:
    ours = network()
    theirs = torch_layers(ours, norm_first=True)
    b = texts(7, 7)
    x = ours.embedding(b.inputs) * 4 + ours.positions.table[:7]
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    torch.testing.assert_close(ours(b), theirs(x, mask, is_causal=True), rtol=1e-4, atol=1e-5)


def test_no_position_gives_weight_to_a_later_one() -> None:
    maps = network().attention_maps(texts(8))
    assert sorted(maps) == ["decoder.0.self", "decoder.1.self"]
    for weights in maps.values():
        assert weights.shape == (1, 4, 8, 8)
        assert torch.equal(weights.triu(1), torch.zeros_like(weights))
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 8))


def test_more_tokens_than_positions_are_refused_in_one_pass_and_step_by_step() -> None:
    ours = network()
    with pytest.raises(UserError, match=r"a text of 13 tokens is longer than model\.max_positions=12"):
        ours(texts(13))
    _, state = ours.read(texts(12).inputs, ours.start(1, torch.device("cpu")))
    with pytest.raises(UserError, match="a text of 13 tokens"):
        ours.step(torch.tensor([7]), state)


def test_one_token_and_only_unknown_ones_are_read() -> None:
    ours = network(kv_heads=2, positions="rotary")
    assert ours(texts(1)).shape == (1, 1, 16)
    unknown = TextBatch(torch.full((1, 5), UNK), torch.full((1, 5), UNK), 5, np.zeros(1, np.int64))
    assert torch.isfinite(language_loss(ours, unknown, LossConfig())[0])


def test_tables_are_one_or_two() -> None:
    tied, loose = network(), network(tie=False)
    assert tied.output.weight is tied.embedding.weight
    assert loose.parameter_count() == tied.parameter_count() + 30 * 16
