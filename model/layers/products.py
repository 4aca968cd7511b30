"""The linear layer of the Transformers, in few numbers of rows on a CPU.

oneDNN compiles a half-precision product anew for each number of rows, and a backward pass has two more: 2 to 6 ms each,
ten times as long as the product. Batches of sentences have a hundred such numbers, more than its cache keeps.
"""

import torch
from torch import Tensor, nn

ROWS = 64  # numbers of rows are multiples of it


class Product(nn.Linear):
    """nn.Linear, which in half precision on a CPU multiplies rows of zeros too and drops what they give.

    They add nothing to any gradient.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x (..., I) -> (..., O)."""
        if x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return super().forward(x)
        rows = x.flatten(0, -2)  # (N, I)
        filled = nn.functional.pad(rows, (0, 0, 0, -len(rows) % ROWS))
        return super().forward(filled)[: len(rows)].view(*x.shape[:-1], self.out_features)
