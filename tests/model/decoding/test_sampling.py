"""Which tokens may be drawn, to the token; how often, to the sampling error."""

import math

import pytest
import torch

from dragoman.model.decoding.generation import candidates, draw

SHARES = torch.tensor([[0.1, 0.4, 0.05, 0.25, 0.2]])
LOGITS = SHARES.log()


def allowed(logits: torch.Tensor, **settings: float) -> dict[int, float]:
    ids, probabilities = candidates(logits, settings.pop("temperature", 1.0), **settings)  # type: ignore[arg-type]
    assert float(probabilities.sum()) == pytest.approx(1.0)
    pairs = zip(ids[0].tolist(), probabilities[0].tolist(), strict=True)
    return {token: round(share, 6) for token, share in pairs if share > 0}


def test_without_limits_it_is_the_softmax() -> None:
    assert allowed(LOGITS) == {1: 0.4, 3: 0.25, 4: 0.2, 0: 0.1, 2: 0.05}


@pytest.mark.parametrize(
    ("top_k", "expected"), [(1, {1: 1.0}), (2, {1: 0.615385, 3: 0.384615}), (5, 5), (9, 5), (0, 5)]
)
def test_top_k_keeps_the_likeliest(top_k: int, expected: dict[int, float] | int) -> None:
    found = allowed(LOGITS, top_k=top_k)
    assert (len(found) if isinstance(expected, int) else found) == expected


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [(1e-9, [1]), (0.39, [1]), (0.41, [1, 3]), (0.64, [1, 3]), (0.66, [1, 3, 4]), (0.96, [1, 3, 4, 0, 2])],
)
def test_top_p_keeps_the_fewest_that_reach_it(top_p: float, expected: list[int]) -> None:
    assert list(allowed(LOGITS, top_p=top_p)) == expected


def test_top_p_counts_what_top_k_left() -> None:
    assert list(allowed(LOGITS, top_k=3, top_p=0.7)) == [1, 3]  # 0.4 and 0.25 of 0.85
    assert list(allowed(LOGITS, top_p=0.7)) == [1, 3, 4]


def test_temperature_comes_first() -> None:
    cold = allowed(LOGITS, temperature=0.5)
    squares = SHARES.square() / SHARES.square().sum()
    assert cold[1] == pytest.approx(float(squares[0, 1]), abs=1e-6)
    assert list(allowed(LOGITS, temperature=0.5, top_p=0.5)) == [1]
    assert allowed(LOGITS * 1e4, temperature=1e-300) == {1: 1.0}
    assert len(allowed(LOGITS, temperature=1e6)) == 5


def test_of_equals_the_lower_id_comes_first() -> None:
    assert allowed(torch.zeros(1, 4), top_k=2) == {0: 0.5, 1: 0.5}


def test_what_is_forbidden_stays_out() -> None:
    logits = LOGITS.clone()
    logits[0, 1] = -math.inf
    assert list(allowed(logits)) == [3, 4, 0, 2]
    assert list(allowed(logits, top_k=5)) == [3, 4, 0, 2]


def test_a_draw_inverts_the_cumulative_distribution() -> None:
    ids, shares = (part.expand(8, -1) for part in candidates(LOGITS, 1.0, top_k=3))
    uniform = torch.tensor([0.0, 0.46, 0.48, 0.76, 0.77, 0.999, 1 - 2**-53, 0.2], dtype=torch.float64)
    assert draw(ids, shares, uniform).tolist() == [1, 1, 3, 3, 4, 4, 4, 1]


def test_draws_come_as_often_as_they_are_likely() -> None:
    ids, shares = candidates(LOGITS, 1.0)
    uniform = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    drawn = draw(ids.expand(2000, -1), shares.expand(2000, -1), uniform)
    assert torch.bincount(drawn, minlength=5).tolist() == [200, 800, 100, 500, 400]
