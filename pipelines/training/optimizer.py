"""Optimizer, learning-rate schedules, loss scaling and the moving average of the weights."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.model.layers.roles import roles
from dragoman.model.settings import Precision
from dragoman.pipelines.settings import OptimizerConfig
from dragoman.pipelines.training.muon import Muon

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
    config: OptimizerConfig,
    network: nn.Module,
    precision: Precision = "fp32",
    scales: Mapping[nn.Parameter, float] | None = None,
) -> torch.optim.Optimizer:
    """Returns an optimizer with fused kernels for every parameter that is not frozen.

    Weight decay is for matrices alone (`roles`), not for tables and plain parameters. Muon takes the matrices, each of
    those that share a parameter by itself if `split_packed` is set, and computes in bfloat16 if the network does; Adam
    has the rest. The parameters of each factor in `scales` are a group with that `scale`; the others have 1.
    """
    trained = {parameter: role for parameter, role in roles(network).items() if parameter.requires_grad}
    matrices = [parameter for parameter, role in trained.items() if role.kind == "matrix"]
    spared = [parameter for parameter, role in trained.items() if role.kind != "matrix"]
    rates: dict[str, Any] = {"lr": config.lr, "betas": (config.betas[0], config.betas[1]), "eps": config.eps}
    if config.kind == "muon":
        adam = torch.optim.Adam(scaled(spared, scales or {}), **rates, fused=True)
        work = torch.bfloat16 if precision == "bf16" else torch.float32
        rows: dict[Tensor, Sequence[int]] = {parameter: role.rows for parameter, role in trained.items() if role.rows}
        own = scaled(matrices, scales or {})
        return Muon(own, adam, config.weight_decay, work, rows if config.split_packed else {})
    kind = torch.optim.Adam if config.kind == "adam" else torch.optim.AdamW
    decayed = scaled(matrices, scales or {}, weight_decay=config.weight_decay)
    return kind([*decayed, *scaled(spared, scales or {}, weight_decay=0.0)], **rates, fused=True)


def scaled(
    parameters: Iterable[nn.Parameter], scales: Mapping[nn.Parameter, float], **settings: float
) -> list[dict[str, Any]]:
    """Returns a group of an optimizer for each factor of the learning rate; there is always one of factor 1."""
    groups: dict[float, list[nn.Parameter]] = {1.0: []}
    for parameter in parameters:
        groups.setdefault(scales.get(parameter, 1.0), []).append(parameter)
    return [{"params": members, "scale": factor, **settings} for factor, members in groups.items()]


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
