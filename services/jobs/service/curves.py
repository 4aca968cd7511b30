"""A training's curves, read from the journal in its run's folder and thinned, and what its end released."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.jobs.ledger.tables import Job

POINTS = 1000  # of a curve at most
NOT_CURVES = {"step", "seconds", "tokens", "valid_items", "batch"}
Point = tuple[int, float]  # step, value


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
    for line in journal(run):
        step = int(line["step"])
        for name, value in line.items():
            if name not in NOT_CURVES and isinstance(value, int | float):
                found.setdefault(name, {})[step] = float(value)
        if "tokens" in line:
            tokens += int(line["tokens"])
            seconds = float(line["seconds"])
            if seconds >= before[0] + 1.0:
                found.setdefault("tokens_per_second", {})[step] = (tokens - before[1]) / (seconds - before[0])
                before = (seconds, tokens)
            elif seconds < before[0]:  # begun again from a checkpoint
                before = (seconds, tokens)
    return {name: thinned(sorted(points.items())) for name, points in found.items()}


def journal(run: Path | None) -> list[dict[str, Any]]:
    """The whole lines of steps.jsonl; the last one may still be being written."""
    try:
        text = (run / "steps.jsonl").read_text(encoding="utf-8") if run else ""
        return [line for line in map(json.loads, text.split("\n")[:-1]) if "step" in line]
    except (OSError, ValueError):
        return []


def thinned(points: Sequence[Point], most: int = POINTS) -> list[Point]:
    """At most `most` of them, evenly, the last one kept."""
    every = -(-(len(points) - 1) // (most - 1))
    return [*points[:-1:every], points[-1]] if every > 1 else list(points)


def released(run: Path | None) -> dict[str, Any]:
    """What the end of the run published: its MLflow run, model, version, scores. Empty before that."""
    return read_json(run / "release.json") if run else {}


def read_json(path: Path) -> dict[str, Any]:
    """An object of a file; empty where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(found) if isinstance(found, Mapping) else {}
