"""The small JSON files of a run: its settings, the results of its release, its MLflow run.

`read` and the functions named after it are for the run's own commands, which stop at a damaged file and name it.
Others, which must continue, use `dragoman.model.untrusted.read_object`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.model.files import atomic_write
from dragoman.model.runs.paths import RECORD, RELEASE, TRACKED, evaluation
from dragoman.model.untrusted import read_json

REMEDY = "Put back the file that was written when the run began, or choose another name= to begin a new run"
PLANS = "plans"  # in run.json: planned length and end of the schedule, an object per change


def read_record(run: Path) -> dict[str, Any] | None:
    """Returns the run's settings; None before it has begun."""
    return read(run / RECORD)


def write_record(run: Path, values: Mapping[str, Any]) -> None:
    """Writes the run's settings."""
    atomic_write(run / RECORD, json.dumps(values, indent=2, sort_keys=True))


def read_plans(run: Path) -> list[dict[str, int]]:
    """Returns the run's plans, `{"from_step", "max_steps", "schedule_steps"[, "last_step"]}`, the newest last."""
    return list((read_record(run) or {}).get(PLANS, []))


def read_release(run: Path) -> dict[str, Any]:
    """Returns the results of a released run and their places; empty before that."""
    return read(run / RELEASE) or {}


def write_release(run: Path, values: Mapping[str, Any]) -> None:
    """Writes the results of the release and their places."""
    atomic_write(run / RELEASE, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def write_evaluation(folder: Path, split: str, values: Mapping[str, Any]) -> Path:
    """Writes the record of an evaluation beside its bundle; returns its file."""
    path = evaluation(folder, split)
    atomic_write(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return path


def read_tracked(run: Path) -> dict[str, Any]:
    """Returns `{"run_id", "server", "offset"}` of the MLflow run; empty before MLflow has it.

    `offset`: the byte of the run's records up to which MLflow has them.
    """
    return read(run / TRACKED) or {}


def write_tracked(run: Path, values: Mapping[str, Any]) -> None:
    """Writes the run's identity at MLflow."""
    atomic_write(run / TRACKED, json.dumps(values, indent=1) + "\n")


def read(path: Path) -> dict[str, Any] | None:
    """Returns the object in one of the run's files; None if there is no file."""
    return read_json(path, REMEDY)
