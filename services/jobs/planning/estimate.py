"""Estimates a job's time from the measured times of this cluster's jobs.

A training step takes a time per layer, whatever its size, and a time for its operations, at a rate that grows with the
network's width and with the number of workers. The time around the steps, starting and evaluating, is counted
separately. Jobs of the same shape count most, those of the same architecture less, all others a little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, log2
from typing import Any

from dragoman.services.jobs.ledger.tables import Measurement
from dragoman.services.jobs.planning.regression import Fit, Point, Prior, Spread

EFFICIENCY = 0.85  # of the ideal speed-up that doubling the workers leaves
SCALING = 0.2  # standard deviation of the logarithm, for each doubling between two numbers of workers
HALF = 128.0  # width that reaches half of the fastest rate
USUAL = 512.0  # width and layers of measurements without them
USUAL_LAYERS = 12.0
LAYERS = 4.0  # a step takes at least the time of so many layers
LIKELY = 1.5  # standard deviations on each side: 80 % of a normal distribution needs 1.28, and real ones have tails
KEPT = 200  # newest measurements to use
# Seconds per step for LAYERS layers, and seconds per operation at the fastest rate of one worker.
PACE = {gpu: Prior((log(0.006), log(1 / rate)), (1.0, 1.0), 0.5, 0.25, 0.15) for gpu, rate in ((0, 2e11), (1, 5e13))}
# Seconds of starting, and seconds per operation of a token: an evaluation reads many tokens.
AROUND = Prior((log(30.0), log(1e-7)), (0.7, 1.5), 0.4, 0.5, 0.2)
WHOLE = Prior((log(60.0),), (3.0,), 0.5, 1.0, 0.2)  # seconds of a job without steps


@dataclass(frozen=True)
class Estimate:
    """Seconds, and the data they come from."""

    low: float
    expected: float
    high: float
    basis: str


def estimate(plan: Mapping[str, Any], workers: int, measured: Sequence[Measurement], done: int = 0) -> Estimate | None:
    """Returns a job's time with so many workers after `done` of its steps; None if it cannot be estimated.

    `measured` holds this cluster's measurements, newest first. Four of five jobs end between `low` and `high`.
    """
    measured = [run for run in measured if run.verb == plan["verb"]][:KEPT]
    shape, steps = str(plan["shape"]), plan.get("steps")
    if steps is None:
        if not measured:
            return None
        points = tuple(Point((1.0,), "", run.shape, run.training + run.around) for run in measured)
        return _sum_parts(
            [(1.0, _fit(WHOLE, points).predict((1.0,), "", shape, lambda _: ((1.0,), 0.0)))],
            _basis(shape, workers, measured),
        )
    left = max(0, int(steps) - done)
    trained = [run for run in measured if run.steps > 0 and run.training > 0]
    size = (float(plan["flops"]) / max(1, int(steps)), int(plan.get("layers", 0)), int(plan.get("width", 0)))
    kind = str(plan.get("architecture", ""))
    paces = tuple(
        Point(
            _work(run.flops, run.layers, run.width, run.workers),
            run.architecture,
            run.shape,
            run.training / run.steps,
            run.workers,
        )
        for run in trained
    )
    pace = _fit(PACE[int(plan["gpus"] > 0)], paces).predict(
        _work(*size, workers),
        kind,
        shape,
        lambda others: (_work(*size, others), (SCALING * log2(others / workers)) ** 2),
    )
    arounds = tuple(
        Point((1.0, run.flops / run.tokens if run.tokens else 0.0), run.architecture, run.shape, run.around)
        for run in trained
    )
    tokens = float(plan.get("tokens") or 0)
    place = (1.0, float(plan["flops"]) / tokens if tokens else 0.0)
    around = _fit(AROUND, arounds).predict(place, kind, shape, lambda _: (place, 0.0))
    return _sum_parts([(float(left), pace), (1.0, around)], _basis(shape, workers, trained))


@lru_cache(maxsize=16)
def _fit(prior: Prior, points: tuple[Point, ...]) -> Fit:
    """Fits once for every plan until the next job has ended."""
    return Fit(prior, points)


def _work(flops: float, layers: int, width: int, workers: int) -> tuple[float, float]:
    """Returns (layers' share, operations at the fastest rate of one worker) of a step."""
    share = (LAYERS + (layers or USUAL_LAYERS)) / LAYERS
    return share, flops * (1 + HALF / (width or USUAL)) / _speed(workers)


def _speed(workers: int) -> float:
    """Returns the speed of so many workers relative to one: each doubling adds less."""
    return float(workers ** (1 + log2(EFFICIENCY)))


def _sum_parts(parts: Sequence[tuple[float, Spread]], basis: str) -> Estimate:
    """Returns the range of a sum; each part is a factor times a spread."""
    times = [(count * exp(min(spread.mean, 100.0)), spread.variance) for count, spread in parts]
    expected = sum(time for time, _ in times)
    if expected <= 0:
        return Estimate(0.0, 0.0, 0.0, basis)
    deviation = sum((time / expected) ** 2 * variance for time, variance in times) ** 0.5
    factor = exp(min(LIKELY * deviation, 20.0))
    return Estimate(expected / factor, expected, expected * factor, basis)


def _basis(shape: str, workers: int, measured: Sequence[Measurement]) -> str:
    same = [run for run in measured if run.shape == shape]
    equal = [run for run in same if run.workers == workers]
    if equal:
        return f"{len(equal)} like it"
    if same:
        return f"{len(same)} like it on other numbers of workers"
    return f"{len(measured)} others here" if measured else "nothing measured here yet"
