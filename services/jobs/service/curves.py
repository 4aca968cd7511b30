"""A training's curves, read from the journal in its run's folder and thinned, and what its end released."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from model.runs import paths
from model.runs.lines import JournalReader
from model.untrusted import finite, read_object
from services.jobs.ledger.tables import Job

POINTS = 1000  # of a curve at most
NOT_CURVES = {"step", "seconds", "tokens", "valid_items", "batch"}
NAME = re.compile(r"[A-Za-z]\w{0,39}", re.ASCII)  # of a curve
MOST = 40  # curves
Point = tuple[int, float]  # step, value
T = TypeVar("T")


def run_of(job: Job) -> Path | None:
    """The run's folder; None where the job trains nothing."""
    plan = job.plan or {}
    return Path(plan["run_dir"]) if job.verb == "train" and plan.get("run_dir") else None


def read_curves(run: Path | None) -> dict[str, list[Point]]:
    """Name (loss, valid_loss, lr, tokens_per_second, ...) -> its points, in the order of the steps.

    Empty where the run cannot be seen from here, or has not begun. A step that was trained again after a checkpoint
    counts as it came last.
    """
    found: dict[str, dict[int, float]] = {}
    before = (0.0, 0)  # seconds and tokens at the last line of a step
    tokens = 0
    for line in JournalReader(run / paths.STEPS).lines() if run else ():
        step = line["step"]
        for name, value in line.items():
            number = finite(value)
            if number is None or name in NOT_CURVES or not NAME.fullmatch(name):
                continue
            if name in found or len(found) < MOST:
                found.setdefault(name, {})[step] = number
        if "tokens" in line:
            tokens += line["tokens"]
            seconds = float(line.get("seconds", 0.0))
            if seconds >= before[0] + 1.0:
                found.setdefault("tokens_per_second", {})[step] = (tokens - before[1]) / (seconds - before[0])
                before = (seconds, tokens)
            elif seconds < before[0]:  # begun again from a checkpoint
                before = (seconds, tokens)
    return {name: thinned(sorted(points.items())) for name, points in found.items()}


def thinned(points: Sequence[T], most: int = POINTS) -> list[T]:
    """At most `most` of them, evenly, the last one kept."""
    every = -(-(len(points) - 1) // (most - 1))
    return [*points[:-1:every], points[-1]] if every > 1 else list(points)


def released(run: Path | None) -> dict[str, Any]:
    """What the end of the run published: its MLflow run, model, version, scores. Empty before that."""
    return read_object(run / paths.RELEASE) if run else {}
