"""`dragoman runs`: lists the runs in `paths.runs`, with state, score, age, size and registered version."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.conf import compose, showing
from dragoman.model.plural import plural
from dragoman.model.storage.places import local_folder
from dragoman.services.commands.run_folders import AGE_AND_SIZE, run_folders
from dragoman.services.jobs.client.table import show as show_table


@dataclass
class RunsConfig:
    """The runs to list."""

    shards: bool = False  # also list the records of shardings


@dataclass
class RunsRoot:
    """The sections that the command reads."""

    paths: dict[str, Any]
    runs: RunsConfig


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code."""

    def task(root: RunsRoot) -> int:
        return show(local_folder(root.paths["runs"], root.paths["cache"]), root.runs.shards)

    return compose.run(task, RunsRoot, argv, "runs")


def show(runs: Path, shards: bool = False) -> int:
    """Prints one line per run, last changed first; with `shards` also the records of shardings."""
    folders = run_folders(runs)
    shown_folders = [run for run in folders if shards or not run.is_sharding]
    records = [
        {
            "name": str(run.path.relative_to(runs)),
            "path": str(run.path),
            "state": run.state,
            "score": run.score,
            "changed": run.changed,
            "bytes": run.bytes,
            "version": run.version,
        }
        for run in shown_folders
    ]
    columns = {"RUN": "name", "STATE": "state", "SCORE": "score", **AGE_AND_SIZE, "VERSION": "version"}
    show_table(records, columns, empty=f"no runs in {runs}")
    if len(shown_folders) < len(folders) and not showing.wants_json():
        print(f"and {plural(len(folders) - len(shown_folders), 'record')} of shardings (runs.shards=true)")
    return compose.OK
