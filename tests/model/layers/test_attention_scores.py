"""Attention worked by hand: scores, softmax, attention vector, masks; and the additive score's gradients."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from dragoman.model.device import kernels
from dragoman.model.errors import UserError
from dragoman.model.layers import attention_scores
from dragoman.model.layers.attention_scores import (
    SCORES,
    Additive,
    General,
    additive_scores,
    attend,
    attention_weights,
    make_score,
)

QUERY = torch.tensor([[[1.0, 0.0]]])  # (1, 1, 2)
ANNOTATIONS = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [7.0, 7.0]]])  # (1, 3, 2), the last one is padding
REAL = torch.tensor([[True, True, False]])


def worked(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, weights and attention vector of the one query."""
    score = make_score(name, 2, 2, 2)
    with torch.no_grad():
        if isinstance(score, Additive):
            nn.init.eye_(score.query.weight)
            nn.init.eye_(score.annotation.weight)
            score.v.copy_(torch.tensor([1.0, 2.0]))
        if isinstance(score, General):
            score.annotation.weight.copy_(torch.tensor([[3.0, 0.5], [0.0, 0.0]]))
    scores = score(QUERY, score.keys(ANNOTATIONS))
    weights = attention_weights(scores, REAL)
    return scores[0, 0], weights[0, 0], attend(weights, ANNOTATIONS)[0, 0]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("dot", 1.0, 0.0),
        ("scaled_dot", 1.0 / math.sqrt(2.0), 0.0),
        ("general", 3.0, 0.5),
        ("additive", math.tanh(2.0), math.tanh(1.0) + 2.0 * math.tanh(1.0)),
    ],
)
def test_scores_weights_and_vector_are_the_hand_worked(name: str, first: float, second: float) -> None:
    scores, weights, vector = worked(name)
    assert scores[:2].tolist() == pytest.approx([first, second])
    share = math.exp(first) / (math.exp(first) + math.exp(second))
    assert weights[:2].tolist() == pytest.approx([share, 1.0 - share])
    assert weights[2].item() == 0.0
    assert vector.tolist() == pytest.approx([share, 1.0 - share])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_padding_gets_no_weight_whatever_the_scores(dtype: torch.dtype) -> None:
    scores = torch.tensor([[[-6e4, -5e4, 6e4]], [[3.0, 6e4, 6e4]]], dtype=dtype)
    real = torch.tensor([[True, True, False], [True, False, False]])
    weights = attention_weights(scores, real)
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert not weights[~real[:, None].expand_as(weights)].any()
    assert weights.sum(-1).tolist() == [[1.0], [1.0]]


def test_a_sentence_of_only_padding_gets_no_weights_and_finite_gradients() -> None:
    scores = torch.randn(2, 2, 3, requires_grad=True)
    weights = attention_weights(scores, torch.tensor([[True, True, False], [False, False, False]]))
    assert torch.equal(weights[1], torch.zeros(2, 3))
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(2))
    weights.square().sum().backward()
    assert scores.grad is not None and torch.isfinite(scores.grad).all() and not scores.grad[1].any()


def draw(batch: int, queries: int, keys: int, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    shapes = ((batch, queries, width), (batch, keys, width), (width,))
    return tuple(torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes)


def test_additive_gradients_match_finite_differences() -> None:
    assert torch.autograd.gradcheck(additive_scores, draw(3, 2, 4, 5, torch.float64))


@pytest.mark.parametrize("chunk", [1, 2 * 3 * 4 * 5, 10**9])
def test_additive_is_the_same_in_any_number_of_pieces(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = replace(kernels(torch.device("cpu")), attention_chunk=chunk)
    monkeypatch.setattr(attention_scores, "kernels", lambda _: table)
    query, keys, v = draw(5, 3, 4, 5, torch.float64)
    ours = additive_scores(query, keys, v)
    plain = (query[:, :, None] + keys[:, None]).tanh() @ v
    torch.testing.assert_close(ours, plain)
    gradient = torch.randn_like(plain)
    found = torch.autograd.grad(ours, (query, keys, v), gradient)
    for one, other in zip(found, torch.autograd.grad(plain, (query, keys, v), gradient), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", SCORES)
def test_every_score_trains_in_half_precision(name: str) -> None:
    torch.manual_seed(0)
    score = make_score(name, 8, 8, 6)
    query, annotations = torch.randn(2, 3, 8, requires_grad=True), torch.randn(2, 4, 8)
    exact = score(query, score.keys(annotations))
    with torch.autocast("cpu", torch.bfloat16):
        rough = score(query, score.keys(annotations.bfloat16()))
    torch.testing.assert_close(rough.float(), exact, atol=0.1, rtol=0.05)
    rough.sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in (query, *score.parameters()))


def test_an_unknown_score_is_refused_with_choices() -> None:
    with pytest.raises(UserError, match=r"model\.attention: 'aditive' is not known\. Did you mean 'additive'\?"):
        make_score("aditive", 4, 4, 4)


@pytest.mark.parametrize("name", ["dot", "scaled_dot"])
def test_a_dot_product_of_two_widths_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"decoder state \(4\) as wide as an annotation \(6\)"):
        make_score(name, 4, 6, 4)
