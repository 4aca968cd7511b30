"""The expected time of a job: by the last speed seen on its cluster."""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.services.jobs.ledger.tables import Measurement


def expected_seconds(
    plan: Mapping[str, Any], workers: int, measured: Sequence[Measurement], done: int = 0
) -> float | None:
    """Returns the seconds that a job takes with so many workers after `done` of its steps; None if nobody knows.

    `measured` has the cluster's ended jobs, newest first. A training takes a step as long as the newest of its shape,
    or as its operations take at the speed of the newest training of another; more workers share the work evenly. It
    takes no longer than its time limit.
    """
    runs = [run for run in measured if run.verb == plan["verb"]]
    alike = [run for run in runs if run.shape == plan["shape"]]
    if plan.get("steps") is None:
        return alike[0].training + alike[0].around if alike else None
    steps = int(plan["steps"])
    trained = [run for run in [*alike, *runs] if run.steps > 0 and run.training > 0 and run.flops > 0]
    limit: float | None = plan.get("limit")  # seconds, by `train.max_minutes`
    if not trained:
        return limit
    run = next((run for run in trained if run.shape == plan["shape"] and run.workers == workers), trained[0])
    size = 1.0 if run.shape == plan["shape"] else float(plan["flops"]) / max(1, steps) / run.flops
    step = run.training / run.steps * size * run.workers / workers
    seconds = max(0, steps - done) * step + run.around
    return min(seconds, limit) if limit else seconds
