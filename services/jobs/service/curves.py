"""Reads a training's curves, thinned, from the journal in its run's folder, and what its end released."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dragoman.model.runs import paths
from dragoman.model.runs.lines import JournalReader
from dragoman.model.untrusted import finite, read_object

POINTS = 1000  # of a curve
NOT_CURVES = {"step", "seconds", "tokens", "valid_items", "batch", "last_step"}
NAME = re.compile(r"[A-Za-z]\w{0,39}", re.ASCII)  # of a curve
MOST = 40  # curves
Point = tuple[int, float]  # step, value
T = TypeVar("T")


def run_of(job: Any) -> Path | None:
    """Returns the run's folder; None if the job trains nothing."""
    plan = job.plan or {}
    return Path(plan["run_dir"]) if job.verb == "train" and plan.get("run_dir") else None


def score_in(released: Mapping[str, Any]) -> tuple[str, float | None]:
    """Returns the metric and the value of the score that a run's release has; empty and None if it has none."""
    if released.get("bleu"):
        signature, _, value = str(released["bleu"]).partition(" = ")
        try:
            return signature.partition("|")[0][:64], finite(float(value.partition(" ")[0]))
        except ValueError:
            return "", None
    scores = released.get("scores")
    numbers = ((str(name)[:64], finite(value)) for name, value in scores.items()) if isinstance(scores, Mapping) else ()
    return next(((name, number) for name, number in numbers if number is not None), ("", None))


def score_text(metric: str, score: float | None) -> str:
    """Returns a score with its metric's name; empty if there is none."""
    return "" if score is None else f"{metric} {score:.4g}"


def read_curves(run: Path | None) -> dict[str, list[Point]]:
    """Returns name (loss, valid_loss, lr, tokens_per_second, ...) -> points, in the order of the steps.

    Empty if the run cannot be seen from here or has not begun. Of a step that was repeated after a resume the last
    value counts.
    """
    curves: dict[str, dict[int, float]] = {}
    before = (0.0, 0)  # seconds and tokens at the previous step
    tokens = 0
    for line in JournalReader(run / paths.STEPS).lines() if run else ():
        step = line["step"]
        for name, value in line.items():
            number = finite(value)
            if number is None or name in NOT_CURVES or not NAME.fullmatch(name):
                continue
            if name in curves or len(curves) < MOST:
                curves.setdefault(name, {})[step] = number
        if "tokens" in line:
            tokens += line["tokens"]
            seconds = float(line.get("seconds", 0.0))
            if seconds >= before[0] + 1.0:
                curves.setdefault("tokens_per_second", {})[step] = (tokens - before[1]) / (seconds - before[0])
                before = (seconds, tokens)
            elif seconds < before[0]:  # resumed from a checkpoint
                before = (seconds, tokens)
    return {name: thinned(sorted(points.items())) for name, points in curves.items()}


def thinned(points: Sequence[T], most: int = POINTS) -> list[T]:
    """Returns at most `most` points, evenly spaced, with the last one."""
    every = -(-(len(points) - 1) // (most - 1))
    return [*points[:-1:every], points[-1]] if every > 1 else list(points)


def released(run: Path | None) -> dict[str, Any]:
    """Returns what the end of the run published: MLflow run, model, version, scores. Empty before that."""
    return read_object(run / paths.RELEASE) if run else {}
