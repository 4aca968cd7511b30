"""Forecasts: across sizes, over a mixed history, and what is told of them once jobs have ended."""

from math import exp, log
from pathlib import Path

import pytest

from bench import forecast_baseline, forecasts
from dragoman.services.jobs.planning.estimate import estimate
from dragoman.services.jobs.planning.regression import Fit, Point, Prior
from dragoman.services.jobs.service.metrics import Metrics
from dragoman.services.jobs.service.progress import Progress
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring, make_loop

# The default training, as its plan says it; on two cores it takes some 55 minutes.
DEFAULT = {"shape": "default", "verb": "train", "steps": 8000, "flops": 1.0243e15, "tokens": 65_536_000, "gpus": 0.0}
DEFAULT |= {"width": 128, "layers": 8, "architecture": "transformer"}


def toys(pace: float) -> list[forecasts.Job]:
    """Nine short trainings of small networks: a step costs little more than calling its layers."""
    return [forecasts.Job(f"toy{n % 3}", 20, 4.1e8, 512.0, 32, 8, "transformer", 20 * pace, 30.0) for n in range(9)]


def test_toy_runs_do_not_make_the_default_training_take_days() -> None:
    truth = 55 * 60
    for measured in ([], toys(0.014)):
        now, before = estimate(DEFAULT, 2, measured), forecast_baseline.estimate(DEFAULT, 2, measured)
        assert now is not None and before is not None
        assert now.low < truth < now.high and now.expected < 2.5 * truth
        assert before.expected > 4 * truth  # what was wrong


@pytest.mark.parametrize("kind", ["simulated", pytest.param("mixed", marks=pytest.mark.long)])
def test_four_of_five_jobs_take_what_was_promised_and_three_of_a_kind_make_it_narrow(kind: str) -> None:
    """The recorded trainings ran beside other work that came and went: alone two in three are inside (docs/jobs.md)."""
    jobs = forecasts.simulated(120, 7)
    if kind == "mixed":
        jobs = forecasts.simulated(1000, forecasts.SEED) + forecasts.real()
        assert len(jobs) >= 1020
    tally = forecasts.judge(estimate, jobs)
    assert sum(tally.inside) >= 0.8 * len(tally.inside)
    assert max(tally.ranges) <= 8


def test_few_points_leave_a_wide_range_and_many_alike_a_narrow_one() -> None:
    widths = []
    for count in (0, 1, 3, 20):
        alike = forecasts.Job("default", 8000, 1.28e11, 8192.0, 128, 8, "transformer", 5000.0, 60.0)
        found = estimate(DEFAULT, 1, [alike] * count)
        assert found is not None
        widths.append(found.high / found.low)
    assert widths == sorted(widths, reverse=True) and widths[0] > 8 > widths[2] and widths[3] < 2


def test_a_fit_finds_the_parts_of_a_sum() -> None:
    prior = Prior((log(1.0), log(1.0)), (2.0, 2.0), 0.1, 0.1, 0.1)
    sizes = [(1.0, 10.0**n) for n in range(-3, 4)]
    fit = Fit(prior, [Point(x, "g", f"s{n}", 0.5 * x[0] + 3.0 * x[1]) for n, x in enumerate(sizes)])
    found = fit.predict((1.0, 50.0), "g", "new", lambda _: ((1.0, 50.0), 0.0))
    assert exp(found.mean) == pytest.approx(150.5, rel=0.1)


def test_the_error_of_a_forecast_is_kept_and_is_a_metric(tmp_path: Path) -> None:
    loop, metrics = make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path), Metrics()
    loop.accounts.judged = metrics.judge
    ledger = loop.ledger
    promised = {"low": 0.0, "expected": 1e-3, "high": 1e9, "basis": "x"}
    plan = {"verb": "train", "shape": "s", "steps": 10, "flops": 100.0, "tokens": 50, "width": 8, "layers": 2}
    plan |= {"architecture": "gpt", "seconds": {"1": promised}, "run_dir": str(tmp_path / "none")}
    job = ledger.submit("anna", "train", [])
    job = bring(ledger, job, State.RUNNING, plan=plan, choices=[1])
    ledger.end(job, State.SUCCEEDED, "succeeded", "end", "succeeded", 0)
    loop.accounts.measure(ledger.job(job.id), Progress())
    (row,) = loop.intake.measured()
    assert (row.low, row.predicted, row.high) == (0.0, 1e-3, 1e9)
    assert (row.flops, row.tokens, row.width, row.layers, row.architecture) == (10.0, 5.0, 8, 2, "gpt")
    value = metrics.telemetry.registry.get_sample_value
    assert value("dragoman_forecasts_total", {"inside": "yes"}) == 1
    assert value("dragoman_forecast_error_ratio_count") == 1
    ledger.database.close()
