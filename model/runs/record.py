"""The small JSON files in a run's folder that say what the run is: read here, so that a damaged one is named."""

import json
from pathlib import Path
from typing import Any

from model.errors import UserError

RECORD = "run.json"  # what a run is made of; pipelines/tasks/run_directory.py writes it when the run begins
PLANS = "plans"  # in it: how long it was to train and where its learning rate was to end, an object a change


def read(path: Path) -> dict[str, Any] | None:
    """The object in the file; None where there is no file.

    Raises:
        UserError: it holds something else.
    """
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise _damaged(path, str(problem)) from None
    if not isinstance(content, dict):
        raise _damaged(path, "no object")
    return content


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(
        f"{path}: damaged ({reason}). Put back the file that was written when the run began, or choose another name= "
        f"to begin a new run"
    )
