"""Schedules against their formulas, clipping, loss scale and moving average."""

import math

import pytest
import torch
from torch import nn

from dragoman.pipelines.settings import OptimizerConfig
from dragoman.pipelines.training.optimizer import LossScale, MovingAverage, clip, learning_rate, make_optimizer


def test_inverse_square_root_is_the_papers_curve() -> None:
    """Vaswani et al. 2017, equation 3: d^-0.5 min(s^-0.5, s w^-1.5), with the peak as `lr`."""
    width, warm_up = 512, 4000
    config = OptimizerConfig(lr=(width * warm_up) ** -0.5, warmup_steps=warm_up)
    for step in (1, 100, 3999, 4000, 4001, 100_000):
        paper = width**-0.5 * min(step**-0.5, step * warm_up**-1.5)
        assert learning_rate(config, step, 10**6) == pytest.approx(paper)


@pytest.mark.parametrize(
    ("schedule", "middle", "end"), [("cosine", 0.55, 0.1), ("linear", 0.55, 0.1), ("constant", 1.0, 1.0)]
)
def test_other_schedules_go_from_the_peak_to_their_end(schedule: str, middle: float, end: float) -> None:
    config = OptimizerConfig(lr=1.0, warmup_steps=10, min_lr=0.1, schedule=schedule)  # type: ignore[arg-type]
    assert learning_rate(config, 5, 110) == pytest.approx(0.5)
    assert learning_rate(config, 10, 110) == pytest.approx(1.0)
    assert learning_rate(config, 60, 110) == pytest.approx(middle)
    assert learning_rate(config, 110, 110) == pytest.approx(end)
    assert learning_rate(config, 500, 110) == pytest.approx(end)


def test_no_warm_up_starts_at_the_peak() -> None:
    assert learning_rate(OptimizerConfig(lr=1.0, warmup_steps=0), 1, 10) == 1.0


def test_clip_scales_and_bounds_the_common_norm() -> None:
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([6.0, 0.0]), torch.tensor([8.0])
    assert clip(parameters, 0.5, 1.0) == pytest.approx(5.0)
    assert parameters[0].grad[0].item() == pytest.approx(0.6)
    assert parameters[1].grad[0].item() == pytest.approx(0.8)
    assert clip(parameters, 0.5, 0.0) == pytest.approx(0.5)  # 0: scaled only
    assert parameters[1].grad[0].item() == pytest.approx(0.4)


def test_clip_leaves_what_is_not_finite_to_the_caller() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([math.inf, 1.0])
    assert math.isinf(clip([parameter], 0.5, 1.0))
    assert parameter.grad[1].item() == 1.0


def test_decay_spares_biases_norms_and_tables() -> None:
    network = nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    groups = make_optimizer(OptimizerConfig(kind="adamw", weight_decay=0.1), network).param_groups
    assert [len(group["params"]) for group in groups] == [1, 4]
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]


def test_loss_scale_halves_and_doubles() -> None:
    scale = LossScale(8.0, patience=2)
    scale.update(False)
    assert scale.value == 4.0
    scale.update(True)
    scale.update(True)
    assert (scale.value, scale.calm) == (8.0, 0)
    for _ in range(9):
        scale.update(False)
    assert scale.value == 1.0


def test_moving_average_follows_the_weights() -> None:
    network = nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(0.0)
    average = MovingAverage(0.9, network)
    network.weight.data.fill_(1.0)
    average.update(step=1000)
    assert dict(average.items())["weight"].item() == pytest.approx(0.1)
    average.update(step=0)  # early on the decay is (1 + step) / (10 + step)
    assert dict(average.items())["weight"].item() == pytest.approx(1 - 0.1 * 0.9)
