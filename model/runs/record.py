"""The small JSON files of a run: what it is made of, what it was released as, where MLflow has it.

`read` and what is named after it are for the run's own commands, which stop at a damaged file and name it. Others, who
must go on, read with `model.untrusted.read_object`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.files import atomic_write
from model.runs.paths import RECORD, RELEASE, TRACKED, evaluation
from model.untrusted import read_json

REMEDY = "Put back the file that was written when the run began, or choose another name= to begin a new run"
PLANS = "plans"  # in run.json: how long it was to train and where its rate was to end, an object a change


def read_record(run: Path) -> dict[str, Any] | None:
    """Return what the run is made of; None before it has begun. Raises as `read`."""
    return read(run / RECORD)


def write_record(run: Path, values: Mapping[str, Any]) -> None:
    """Write what the run is made of."""
    atomic_write(run / RECORD, json.dumps(values, indent=2, sort_keys=True))


def read_release(run: Path) -> dict[str, Any]:
    """Return where everything of a released run is, and its scores; empty before that. Raises as `read`."""
    return read(run / RELEASE) or {}


def write_release(run: Path, values: Mapping[str, Any]) -> None:
    """Write where everything is, for whoever comes next."""
    atomic_write(run / RELEASE, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def write_evaluation(folder: Path, split: str, values: Mapping[str, Any]) -> Path:
    """Write the record of an evaluation beside the bundle that it is of; returns its file."""
    path = evaluation(folder, split)
    atomic_write(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return path


def read_tracked(run: Path) -> dict[str, Any]:
    """Return `{"run_id", "name", "server"}` of the run at MLflow; empty before MLflow has it. Raises as `read`."""
    return read(run / TRACKED) or {}


def write_tracked(run: Path, values: Mapping[str, Any]) -> None:
    """Write which run of MLflow's it is."""
    atomic_write(run / TRACKED, json.dumps(values, indent=1) + "\n")


def read(path: Path) -> dict[str, Any] | None:
    """Return the object in one of the run's files; None where there is no file. Raises as `read_json`."""
    return read_json(path, REMEDY)
