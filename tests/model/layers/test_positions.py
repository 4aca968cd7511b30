"""Positions against the formulas of the papers, rotary ones against complex numbers."""

import cmath
import math

import pytest
import torch

from dragoman.model.layers.positions import Positions, rotate, sinusoids
from dragoman.model.networks.transformer import TransformerConfig


def positions(kind: str, width: int = 16, heads: int = 2, most: int = 50) -> Positions:
    return Positions(TransformerConfig(width=width, heads=heads, positions=kind, max_positions=most))  # type: ignore[arg-type]  # one of the three


def test_sinusoids_are_the_papers() -> None:
    table = sinusoids(50, 16)
    for position, i in [(0, 0), (1, 0), (7, 3), (49, 7)]:
        angle = position / 10000 ** (2 * i / 16)
        assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_rotation_is_a_product_of_complex_numbers() -> None:
    """Each pair (a, b) of a head of 8 becomes (a + ib) e^(i p / 10000^(2k/8)), worked number by number."""
    torch.manual_seed(0)
    x = torch.randn(2, 2, 50, 8)
    turned = rotate(x, positions("rotary").rotation(50))
    for position in (0, 1, 7, 49):
        for pair in range(4):
            a, b = x[1, 0, position, 2 * pair : 2 * pair + 2].tolist()
            expected = complex(a, b) * cmath.exp(1j * position / 10000 ** (2 * pair / 8))
            got = turned[1, 0, position, 2 * pair : 2 * pair + 2].tolist()
            assert got == pytest.approx([expected.real, expected.imag], abs=1e-5)


def test_products_of_turned_vectors_depend_on_their_distance_alone() -> None:
    torch.manual_seed(0)
    q, k = (
        torch.randn(2, 8).expand(50, 2, 8).permute(1, 0, 2)[:, None, None].unbind(0)
    )  # (1, 1, 50, 8): always the same
    rotation = positions("rotary").rotation(50)
    scores = (rotate(q, rotation) @ rotate(k, rotation).transpose(-1, -2))[0, 0]
    for distance in (-20, 0, 3):
        same = scores.diagonal(distance)
        torch.testing.assert_close(same, same[:1].expand_as(same), rtol=1e-4, atol=1e-4)
    assert not torch.isclose(scores[0, 0], scores[0, 3])


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "rotary"])
def test_named_positions_are_those_of_the_whole(kind: str) -> None:
    torch.manual_seed(0)
    own = positions(kind)
    x, at = torch.randn(2, 10, 16), torch.tensor([[3], [7]])
    whole = own.add(x, None)
    step = own.add(torch.stack([x[0, 3], x[1, 7]])[:, None], at)
    torch.testing.assert_close(step, torch.stack([whole[0, 3], whole[1, 7]])[:, None])
    heads = torch.randn(2, 2, 10, 8)
    turned = rotate(heads, own.rotation(10))
    one = rotate(torch.stack([heads[0, :, 3], heads[1, :, 7]])[:, :, None], own.rotation(1, at))
    torch.testing.assert_close(one, torch.stack([turned[0, :, 3], turned[1, :, 7]])[:, :, None])
    assert torch.equal(whole, x) == (kind == "rotary")
    assert torch.equal(turned, heads) == (kind != "rotary")


def test_only_learned_positions_are_weights() -> None:
    assert [name for name, _ in positions("learned").named_parameters()] == ["table"]
    for kind in ("sinusoidal", "rotary"):
        assert not positions(kind).state_dict()


def test_far_positions_are_exact_in_bfloat16_too() -> None:
    """The angle is of float32; only the turned vector is rounded."""
    own = positions("rotary", most=5000)
    x = torch.randn(1, 1, 5000, 8)
    turned = rotate(x.bfloat16(), own.rotation(5000))
    assert turned.dtype == torch.bfloat16
    exact = rotate(x.bfloat16().double(), own.rotation(5000))
    torch.testing.assert_close(turned.double(), exact, rtol=2**-8, atol=2**-8)
