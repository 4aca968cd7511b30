"""The linear layer in few numbers of rows."""

import torch
from torch import Tensor, nn

from dragoman.model.layers.products import Product


def results(layer: nn.Linear, x: Tensor) -> list[Tensor]:
    """Returns the layer's output in bfloat16 and the gradients of input, weight and bias."""
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    (out.float().sin()).sum().backward()
    gradients = x.grad, layer.weight.grad, layer.bias.grad
    return [out, *(g for g in gradients if g is not None)]


def test_added_rows_change_neither_output_nor_gradients() -> None:
    torch.manual_seed(1)
    ours = Product(16, 24)
    plain = nn.Linear(16, 24)
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(3, 7, 16)
    both = results(ours, x), results(plain, x)
    assert len(both[0]) == 4
    torch.testing.assert_close(*both, rtol=0.02, atol=0.02)


def test_without_half_precision_it_is_a_plain_layer() -> None:
    layer = Product(16, 8)
    x = torch.randn(2, 3, 16)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))
