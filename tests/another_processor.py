"""A pytest plugin: products of float32 round as on another processor, by the batch's shape and a row's place in it.

    python -m pytest -p tests.another_processor tests/model

Libraries choose how to add up by the processor and the shape, so the same line in two rows of a batch, or alone and in
company, differs in its last bits on some machines and not on others. Here it does on every machine: a test that takes
such values for equal fails under the plugin before a user's processor makes it fail. One machine stays of one mind:
the same shape always rounds the same way, so what is promised bit for bit must still hold.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import _VF
from torch.nn import functional as F

ROUNDING = 2.0**-22  # of a value: two units in float32's last place, as sums in another order differ


def rounded(product: torch.Tensor) -> torch.Tensor:
    """`product` (..., N) with each row scaled by 1 ± ROUNDING at most; other types and single rows of numbers stay."""
    if product.dtype != torch.float32 or product.dim() < 2 or not product.numel():
        return product
    shape = sum((axis + 3) * size for axis, size in enumerate(product.shape))
    place = torch.arange(product[..., 0].numel(), dtype=torch.float32)
    return product * (1 + ROUNDING * torch.sin(2.4 * place + shape)).reshape(*product.shape[:-1], 1)


def rounding(function: Callable[..., Any]) -> Callable[..., Any]:
    def on_another_processor(*args: Any, **settings: Any) -> Any:
        found = function(*args, **settings)
        return (rounded(found[0]), *found[1:]) if isinstance(found, tuple) else rounded(found)

    return on_another_processor


def pytest_configure() -> None:
    patch = pytest.MonkeyPatch()  # never undone: the process ends with the tests
    places: list[tuple[Any, list[str]]] = [
        (F, ["linear", "scaled_dot_product_attention"]),
        (torch, ["matmul", "bmm", "mm", "einsum", "addmm", "baddbmm"]),
        (torch.Tensor, ["matmul", "__matmul__", "bmm", "mm"]),
        (_VF, ["lstm", "gru", "rnn_tanh", "rnn_relu"]),
    ]
    for owner, names in places:
        for name in names:
            patch.setattr(owner, name, rounding(getattr(owner, name)))
