"""The byte mask is a fair dropout mask."""

import pytest
import torch

from dragoman.model.layers.dropout import Dropout, byte_mask


def test_mask_keeps_the_rounded_share_and_scales_by_it() -> None:
    torch.manual_seed(0)
    mask = byte_mask(torch.empty(1_000_003), 0.3)
    keep = 179 / 256
    assert sorted(mask.unique().tolist()) == [0.0, torch.tensor(1 / keep).item()]
    assert abs((mask > 0).float().mean().item() - keep) < 0.003
    assert abs(mask.mean().item() - 1.0) < 0.004


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("p", [0.001, 0.3, 0.995])
def test_the_mask_is_the_comparison_of_bytes_in_every_type(dtype: torch.dtype, p: float) -> None:
    torch.manual_seed(5)
    mask = byte_mask(torch.empty(37, 41, dtype=dtype), p)
    torch.manual_seed(5)
    words = torch.empty((37 * 41 + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    keep = round(256 * (1 - p))
    expected = (words.view(torch.uint8)[: 37 * 41].int() < keep).to(dtype) * (256 / keep)
    assert mask.dtype == dtype
    torch.testing.assert_close(mask, expected.view(37, 41))


def test_add_is_residual_plus_dropout() -> None:
    dropout = Dropout(0.4).train()
    residual, x = torch.randn(50, 7), torch.randn(50, 7)
    torch.manual_seed(3)
    together = dropout.add(residual, x)
    torch.manual_seed(3)
    torch.testing.assert_close(together, residual + dropout(x))


def test_nothing_is_dropped_in_evaluation_or_at_zero() -> None:
    x = torch.randn(9)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_everything_is_dropped_at_one() -> None:
    assert torch.equal(Dropout(1.0).train()(torch.ones(9)), torch.zeros(9))
