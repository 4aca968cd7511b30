"""Optimizer, learning-rate schedules, loss scaling and the moving average of the weights.

Muon: the weight matrices take steps of equal length in every direction (Jordan et al. 2024).

Letters: N matrices of one shape, R rows, C columns.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.model.layers.roles import roles
from dragoman.model.settings import Precision
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.settings import OptimizerConfig

MOMENTUM = 0.95
ROUNDS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024: steepest at 0 among those that bring singular values near 1
TOGETHER = (
    2**18
)  # elements of the matrices in a batched product: fixed, so that no number of ranks changes its rounding
ADAMS_LENGTH = 0.2  # root mean square of Adam's steps, in units of the rate (Liu et al. 2025, section 2.2)


class Muon(torch.optim.Optimizer):
    """Momentum, replaced for each matrix by the nearest semi-orthogonal one; all other parameters are Adam's.

    A step is scaled to the root mean square of Adam's, so that one rate and one schedule serve both. torch's own Muon
    makes the same steps, but matrix by matrix, which takes twice as long, in bfloat16 everywhere, and without `packed`.

    `adam` has the other parameters; `work` is the computing type. `packed` has the rows of each matrix in a parameter
    that holds several, such as queries above keys above values: treated as one matrix, the part with the largest
    gradient would leave the others short steps.

    Of several `ranks`, which have the same gradients, each makes a share of the orthogonal matrices for all.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        adam: torch.optim.Optimizer,
        weight_decay: float,
        work: torch.dtype,
        packed: Mapping[Tensor, Sequence[int]] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__([{"params": list(matrices)}], {"lr": adam.defaults["lr"], "weight_decay": weight_decay})
        self._adam, self._work, self._packed, self._ranks = adam, work, packed or {}, ranks
        adam.state = self.state
        self.param_groups += adam.param_groups  # the same objects: setting a rate sets it for both

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]  # no closure, no loss
        """Updates everything that has a gradient."""
        self._step_group(self.param_groups[0])
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
        together: list[list[tuple[Tensor, Tensor]]] = []  # groups of matrices of one shape
        for shape, pairs in alike.items():
            count = max(1, TOGETHER // shape.numel())
            together += [pairs[i : i + count] for i in range(0, len(pairs), count)]
        changes = self._orthogonal([[part for _, part in pairs] for pairs in together])
        for pairs, change in zip(together, changes, strict=True):
            matrices = [matrix for matrix, _ in pairs]
            if group["weight_decay"]:
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            # a semi-orthogonal matrix has a root mean square of 1/sqrt(max)
            length = ADAMS_LENGTH * max(matrices[0].shape) ** 0.5
            torch._foreach_add_(matrices, list(change.to(matrices[0].dtype)), alpha=-group["lr"] * length)

    def _orthogonal(self, momenta: list[list[Tensor]]) -> list[Tensor]:
        """Returns an (N, R, C) for each N matrices of one shape, made on one of the ranks."""
        if self._ranks is None or self._ranks.world == 1:
            return [orthogonal(torch.stack(parts).to(self._work)) for parts in momenta]
        sizes = [len(parts) * parts[0].numel() for parts in momenta]
        every = torch.zeros(sum(sizes), dtype=self._work, device=momenta[0][0].device)
        changes = torch.split(every, sizes)
        makers = share([size * min(parts[0].shape) for size, parts in zip(sizes, momenta, strict=True)], self._ranks)
        for parts, change, maker in zip(momenta, changes, makers, strict=True):
            if maker == self._ranks.rank:
                change.copy_(orthogonal(torch.stack(parts).to(self._work)).flatten())
        self._ranks.sum(every)  # exact: all but one rank have zeros
        return [change.view(len(parts), *parts[0].shape) for parts, change in zip(momenta, changes, strict=True)]

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


def share(costs: Sequence[int], ranks: Ranks) -> list[int]:
    """Returns the rank that does each task: the dearest first, each by the rank that has least to do."""
    load = [0] * ranks.world
    chosen = [0] * len(costs)
    for task in sorted(range(len(costs)), key=lambda task: -costs[task]):
        chosen[task] = load.index(min(load))
        load[chosen[task]] += costs[task]
    return chosen


WITH_AN_END = ("cosine", "linear")  # schedules whose rate at a step depends on their end


def learning_rate(config: OptimizerConfig, step: int, schedule_steps: int) -> float:
    """Returns the rate of update `step`, counted from 1.

    Warm-up is linear. Then the rate falls with 1/sqrt(step) (Vaswani et al. 2017, equation 3, scaled so that its peak
    is `lr`), along half a cosine, along a line, or not at all. Cosine and line end at step `schedule_steps`; from there
    on the rate is `min_lr`.
    """
    if step < config.warmup_steps:
        return config.lr * step / config.warmup_steps
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "inverse_sqrt":
        return config.lr * math.sqrt(max(config.warmup_steps, 1) / step)
    done = min(1.0, (step - config.warmup_steps) / max(1, schedule_steps - config.warmup_steps))
    left = 0.5 * (1.0 + math.cos(math.pi * done)) if config.schedule == "cosine" else 1.0 - done
    return config.min_lr + (config.lr - config.min_lr) * left


def make_optimizer(
    config: OptimizerConfig, network: nn.Module, precision: Precision = "fp32", ranks: Ranks | None = None
) -> torch.optim.Optimizer:
    """Returns an optimizer with fused kernels for every parameter that is not frozen.

    Weight decay is for matrices alone (`roles`), not for tables and plain parameters. Muon takes the matrices, each of
    those that share a parameter by itself if `split_packed` is set, and computes in bfloat16 if the network does; Adam
    has the rest.
    """
    trained = {parameter: role for parameter, role in roles(network).items() if parameter.requires_grad}
    matrices = [parameter for parameter, role in trained.items() if role.kind == "matrix"]
    spared = [parameter for parameter, role in trained.items() if role.kind != "matrix"]
    rates: dict[str, Any] = {"lr": config.lr, "betas": (config.betas[0], config.betas[1]), "eps": config.eps}
    if config.kind == "muon":
        adam = torch.optim.Adam([{"params": spared}], **rates, fused=True)  # which may be none
        work = torch.bfloat16 if precision == "bf16" else torch.float32
        rows: dict[Tensor, Sequence[int]] = {parameter: role.rows for parameter, role in trained.items() if role.rows}
        return Muon(matrices, adam, config.weight_decay, work, rows if config.split_packed else {}, ranks)
    kind = torch.optim.Adam if config.kind == "adam" else torch.optim.AdamW
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    return kind(groups, **rates, fused=True)


def clip(parameters: Iterable[nn.Parameter], scale: float, clip_norm: float) -> float:
    """Multiplies the gradients by `scale` and clips their norm to `clip_norm`; returns the norm between the two.

    One pass does both. A norm that is not finite leaves the gradients unchanged, and the caller skips the step.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = float(nn.utils.get_total_norm(gradients)) * abs(scale)
    if math.isfinite(norm):
        factor = scale * (clip_norm / norm if clip_norm and norm > clip_norm else 1.0)
        torch._foreach_mul_(gradients, factor)
    return norm


@dataclass
class LossScale:
    """Dynamic loss scaling for fp16 (Micikevicius et al. 2018): halved by an overflow, doubled after a calm time."""

    value: float = 1.0
    calm: int = 0  # steps since the last overflow
    patience: int = 2000

    def update(self, finite: bool) -> None:
        if not finite:
            self.value, self.calm = max(self.value / 2, 1.0), 0
            return
        self.calm += 1
        if self.calm >= self.patience:
            self.value, self.calm = self.value * 2, 0


class MovingAverage:
    """ema <- d ema + (1 - d) w after every update; d is smaller in the first updates."""

    def __init__(self, decay: float, network: nn.Module) -> None:
        self.decay = decay
        self.names, self.live = zip(*network.named_parameters(), strict=True)
        self.weights: list[Tensor] = [p.detach().clone() for p in self.live]

    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.weights, [p.detach() for p in self.live], 1.0 - decay)

    def items(self) -> Iterator[tuple[str, Tensor]]:
        return zip(self.names, self.weights, strict=True)
