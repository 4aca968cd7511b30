"""Forecasts of jobs' times over a mixed history, one after the other as jobs end, beside the method before this one.

1,000 simulated jobs (no law of theirs is the forecast's own) and the real trainings of forecast_runs.json, which were
run on a shared machine with `dragoman train` and recorded as they were. The figure is the share inside the range.
"""

import json
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from statistics import median
from typing import Any

from bench import forecast_baseline
from bench.result import Result
from dragoman.services.jobs.planning.estimate import estimate

RUNS = Path(__file__).with_name("forecast_runs.json")
SEED = 20
KEPT = 200  # measurements that a service reads


@dataclass(frozen=True)
class Job:
    """A training that ran: the fields of a measurement, of a plan's steps, operations a step, seconds."""

    shape: str
    steps: int
    flops: float
    tokens: float
    width: int
    layers: int
    architecture: str
    training: float
    around: float
    workers: int = 1
    verb: str = "train"

    def plan(self) -> dict[str, Any]:
        """What the planner knows before it runs."""
        values = {"shape": self.shape, "verb": self.verb, "steps": self.steps, "flops": self.flops * self.steps}
        values |= {"tokens": self.tokens * self.steps, "width": self.width, "layers": self.layers, "gpus": 0.0}
        return values | {"architecture": self.architecture}


@dataclass
class Tally:
    """What became of forecasts."""

    inside: list[bool] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)  # how far off: 2 is twice as long or half
    ranges: list[float] = field(default_factory=list)  # high through low, after three of a kind
    first: list[tuple[bool, float]] = field(default_factory=list)  # the same of the first of each kind

    def line(self) -> str:
        wide = max(self.ranges, default=0.0)
        held, off = sum(one for one, _ in self.first) / len(self.first), median(factor for _, factor in self.first)
        return (
            f"{sum(self.inside) / len(self.inside):6.1%} of {len(self.inside):,} inside, median error x"
            f"{median(self.factors):.2f}, widest range after three of a kind x{wide:.1f}; first of a kind "
            f"{held:6.1%} inside, x{off:.2f}"
        )


def simulated(count: int, seed: int) -> list[Job]:
    """Jobs of a mixed cluster: shapes that come again, some once; machines that are busy at times."""
    draw = random.Random(seed)
    cost = {"transformer": (0.004, 1.0), "rnnsearch": (0.03, 1.8), "gpt": (0.003, 0.9), "bert": (0.003, 1.1)}
    shapes = []
    for number in range(max(5, count // 7)):
        name = draw.choice(list(cost))
        width, layers = draw.choice((32, 64, 128, 256, 512, 1024)), draw.choice((1, 2, 4, 6, 12))
        tokens, vocabulary = draw.choice((256, 1024, 4096, 16384)), draw.choice((500, 4000, 8000, 32000))
        parameters = 12 * width**2 * layers + width * vocabulary
        flops = 6.0 * parameters * tokens
        a_layer, slower = cost[name]
        rate = 9e10 * (1 - exp(-width / 150)) * (0.7 + 0.3 * min(1.0, tokens / 2048))
        pace = 0.004 + a_layer * layers + slower * flops / rate + 2e-9 * tokens * vocabulary
        start = 12 + 2e-4 * parameters**0.5 * layers + draw.choice((0, 0, 10, 40))
        shapes.append((f"s{number}", name, width, layers, tokens, flops, pace * exp(draw.gauss(0, 0.15)), start))
    found = []
    for _ in range(count):
        shape, name, width, layers, tokens, flops, pace, start = shapes[int(len(shapes) * draw.random() ** 2)]
        busy = exp(draw.gauss(0, 0.08)) * (draw.uniform(1.2, 1.8) if draw.random() < 0.08 else 1.0)
        steps = int(10 ** draw.uniform(1.3, 4.5))
        around = start * exp(draw.gauss(0, 0.2))
        found.append(Job(shape, steps, flops, tokens, width, layers, name, steps * pace * busy, around))
    return found


def real() -> list[Job]:
    """The recorded trainings, in the order in which they ran."""
    keys = ("shape", "steps", "width", "layers", "architecture", "training", "around", "workers")
    rows = json.loads(RUNS.read_text(encoding="utf-8"))["runs"]
    each_step = ("flops", "tokens")
    return [
        Job(**{key: row[key] for key in keys}, **{key: row[key] / row["steps"] for key in each_step}) for row in rows
    ]


def judge(method: Callable[..., Any], jobs: Iterable[Job]) -> Tally:
    """Forecast each job from those before it."""
    tally, before, kinds = Tally(), deque[Job](maxlen=KEPT), Counter[str]()
    for job in jobs:
        found = method(job.plan(), job.workers, list(before))
        took = job.training + job.around
        tally.inside.append(found.low <= took <= found.high)
        tally.factors.append(max(took / found.expected, found.expected / took))
        if not kinds[job.shape]:
            tally.first.append((tally.inside[-1], tally.factors[-1]))
        if kinds[job.shape] >= 3:
            tally.ranges.append(found.high / found.low)
        kinds[job.shape] += 1
        before.appendleft(job)
    return tally


def run(quick: bool, words: Sequence[str]) -> Result:
    """The share of times inside their ranges, now and before."""
    jobs = {"real": real(), "simulated": simulated(100 if quick else 1000, SEED)}
    jobs["all"] = jobs["simulated"] + jobs["real"]
    methods: dict[str, Callable[..., Any]] = {"now": estimate, "before": forecast_baseline.estimate}
    tallies = {(what, name): judge(method, jobs[what]) for what in jobs for name, method in methods.items()}
    for (what, name), tally in tallies.items():
        print(f"{what:<10} {name:<7} {tally.line()}")
    ours, other = (sum(tallies["all", name].inside) / len(jobs["all"]) for name in methods)
    return Result("forecasts", ours, other, "share of jobs whose time was inside its range", "baseline")
