"""The forecast before `services/jobs/planning/estimate.py` went by width and layers: one rate for all trainings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import median
from typing import Any, Protocol

PRIOR_RATE = {False: 2e10, True: 2e13}  # operations a second of a worker, CPU or GPU, before anything was measured
AROUND = 40.0  # seconds beside the steps: starting Ray's workers, evaluating, releasing
EFFICIENCY = 0.85  # of the ideal speed-up that doubling the workers leaves
NARROW, SCALED, WIDE, PRIOR = 1.25, 1.6, 2.5, 8.0  # the range's ends are the expected time times and through this
KEPT = 9  # newest measurements that count


class Measured(Protocol):
    """A row of the ledger's table of measurements."""

    shape: str
    verb: str
    steps: int
    flops: float
    workers: int
    training: float
    around: float


@dataclass(frozen=True)
class Estimate:
    """Seconds, and the data they come from."""

    low: float
    expected: float
    high: float
    basis: str


def estimate(plan: Mapping[str, Any], workers: int, measured: Sequence[Measured], done: int = 0) -> Estimate | None:
    """The time of a job on so many workers, `done` of its steps behind it; None where nothing can be said.

    `measured` is what this cluster was measured at, newest first.
    """
    same = [one for one in measured if one.shape == plan["shape"]]
    steps = plan.get("steps")
    if steps is None:
        sized = [one for one in same if one.workers == workers] or same
        times = [one.training + one.around for one in (sized or [m for m in measured if m.verb == plan["verb"]])[:KEPT]]
        if not times:
            return None
        spread = NARROW if same else PRIOR
        return _range(median(times), spread, f"{len(times)} jobs before", min(times), max(times))
    left = max(0, int(steps) - done)
    trained = [one for one in measured if one.verb == plan["verb"] and one.steps > 0 and one.training > 0]
    known = [one for one in same if one.steps] or trained
    around = median([one.around for one in known[:KEPT]] or [AROUND])
    equal = [one for one in trained if one.shape == plan["shape"] and one.workers == workers][:KEPT]
    if equal:
        paces = [one.training / one.steps for one in equal]
        basis = f"{len(equal)} like it"
        return _range(
            around + left * median(paces), NARROW, basis, around + left * min(paces), around + left * max(paces)
        )
    alike = [one for one in trained if one.shape == plan["shape"]][:KEPT]
    if alike:
        pace = median([one.training / one.steps * _speed(one.workers) for one in alike]) / _speed(workers)
        return _range(around + left * pace, SCALED, f"{len(alike)} like it on other numbers of workers")
    per_step = float(plan["flops"]) / int(steps)
    if trained:
        rate = median([one.flops * one.steps / one.training / _speed(one.workers) for one in trained[:KEPT]])
        return _range(around + left * per_step / (rate * _speed(workers)), WIDE, f"{len(trained[:KEPT])} others here")
    rate = PRIOR_RATE[plan["gpus"] > 0] * _speed(workers)
    return _range(around + left * per_step / rate, PRIOR, "nothing measured here yet")


def _speed(workers: int) -> float:
    """Returns the speed of so many workers relative to one: each doubling adds less."""
    return float(workers ** (1 + log2(EFFICIENCY)))


def _range(expected: float, spread: float, basis: str, least: float = 0.0, most: float = 0.0) -> Estimate:
    low, high = expected / spread, expected * spread
    return Estimate(min(low, least) if least else low, expected, max(high, most), basis)
