"""The layer of low-rank factors and its merged weights."""

import torch
from torch import nn

from dragoman.model.layers.low_rank import LowRank, merged


def layer(dropout: float = 0.0) -> tuple[nn.Linear, LowRank]:
    torch.manual_seed(1)
    plain = nn.Linear(6, 5)
    return plain, LowRank(plain, 2, 8.0, dropout, torch.Generator().manual_seed(2))


def test_it_begins_as_the_layer_that_it_replaces() -> None:
    plain, adapted = layer(0.5)
    x = torch.randn(3, 6)
    assert torch.equal(adapted(x), plain(x))
    assert adapted.weight is plain.weight and adapted.bias is plain.bias


def test_the_formula_and_the_merged_weights_agree() -> None:
    plain, adapted = layer()
    nn.init.normal_(adapted.up)
    x = torch.randn(3, 6)
    expected = plain(x) + 8 / 2 * (x @ adapted.down.T) @ adapted.up.T
    torch.testing.assert_close(adapted(x), expected)
    weights = merged(adapted.state_dict(prefix="here."))
    assert weights.keys() == {"here.weight", "here.bias"}
    torch.testing.assert_close(nn.functional.linear(x, weights["here.weight"], weights["here.bias"]), expected)


def test_weights_without_factors_stay_as_they_are() -> None:
    weights = {"up": torch.ones(2), "a.weight": torch.ones(2, 2)}
    assert all(one is weights[name] for name, one in merged(weights).items())


def test_the_factors_depend_on_the_generator_alone() -> None:
    first = layer()[1].down
    torch.rand(7)
    assert torch.equal(first, layer()[1].down)
