"""Muon: the weight matrices take steps of equal length in every direction (Jordan et al. 2024).

Letters: N matrices of one shape, R rows, C columns.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
ROUNDS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024: steepest at 0 among those that bring singular values near 1
ADAMS_LENGTH = 0.2  # root mean square of Adam's steps, in units of the rate (Liu et al. 2025, section 2.2)


class Muon(torch.optim.Optimizer):
    """Momentum, replaced for each matrix by the nearest semi-orthogonal one; all other parameters are Adam's.

    A step is scaled to the root mean square of Adam's, so that one rate and one schedule serve both. torch's own Muon
    computes in bfloat16 everywhere and processes the matrices one by one.

    `matrices` may be groups of them, each with its factor of the rate (`scale`); `adam` has the other parameters;
    `work` is the computing type. `packed` has the rows of each matrix in a parameter that holds several, such as
    queries above keys above values: treated as one matrix, the part with the largest gradient would leave the others
    short steps.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        adam: torch.optim.Optimizer,
        weight_decay: float,
        work: torch.dtype,
        packed: Mapping[Tensor, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(matrices, {"lr": adam.defaults["lr"], "weight_decay": weight_decay, "scale": 1.0})
        self._groups = len(self.param_groups)
        self._adam, self._work, self._packed = adam, work, packed or {}
        adam.state = self.state
        self.param_groups += adam.param_groups  # the same objects: setting a rate sets it for both

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]  # no closure, no loss
        """Updates everything that has a gradient."""
        for group in self.param_groups[: self._groups]:
            self._step_group(group)
        self._adam.step()

    def _step_group(self, group: dict[str, Any]) -> None:
        trained = [p for p in group["params"] if p.grad is not None]
        if not trained:
            return
        alike: defaultdict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)  # shape -> (matrix, momentum)
        for p, momentum in zip(trained, self._momenta(trained), strict=True):
            rows = list(self._packed.get(p, [len(p)]))
            for matrix, part in zip(torch.split(p, rows), torch.split(momentum, rows), strict=True):
                alike[matrix.shape].append((matrix, part))
        for shape, pairs in alike.items():
            matrices = [matrix for matrix, _ in pairs]
            changes = orthogonal(torch.stack([part for _, part in pairs]).to(self._work))  # (N, R, C)
            if group["weight_decay"]:
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            length = ADAMS_LENGTH * max(shape) ** 0.5  # a semi-orthogonal matrix has a root mean square of 1/sqrt(max)
            torch._foreach_add_(matrices, list(changes.to(matrices[0].dtype)), alpha=-group["lr"] * length)

    def _momenta(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Returns Nesterov's look-ahead from the running means of the gradients, which include this step's."""
        gradients = [p.grad for p in matrices if p.grad is not None]
        for p in matrices:
            if not self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        means = [self.state[p]["momentum"] for p in matrices]
        torch._foreach_lerp_(means, gradients, 1 - MOMENTUM)
        return list(torch._foreach_lerp(gradients, means, MOMENTUM))


def orthogonal(matrices: Tensor) -> Tensor:
    """(N, R, C) -> (N, R, C): turns each U S V' into about U V', with singular values between 0.7 and 1.2.

    Runs five rounds of a quintic Newton-Schulz iteration, in the type of the input.
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices  # the small side first: it sets the size of the products
    x = x / x.float().norm(dim=(1, 2), keepdim=True).clamp_min(1e-7).to(x.dtype)
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
