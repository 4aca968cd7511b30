"""`dragoman runs`: the runs in `paths.runs`, with state, score, age, size and the version that each became."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf import compose
from model.storage.mirror import local_folder
from services.commands.run_folders import age, run_folders, size
from services.jobs.client.table import table


@dataclass
class RunsConfig:
    """What is listed."""

    shards: bool = False  # the records of shardings too


@dataclass
class RunsRoot:
    """The sections that the verb reads."""

    paths: dict[str, Any]
    runs: RunsConfig


def main(argv: Sequence[str]) -> int:
    """The verb's exit code."""

    def task(root: RunsRoot) -> int:
        return show(local_folder(root.paths["runs"], root.paths["cache"]), root.runs.shards)

    return compose.run(task, RunsRoot, argv, "runs")


def show(runs: Path, shards: bool = False) -> int:
    """Print a line a run, the one changed last first; the records of shardings too where `shards` asks for them."""
    found = run_folders(runs)
    shown = [run for run in found if shards or not run.is_sharding]
    rows = [[run.path.name, run.state, run.score, age(run.changed), size(run.bytes), run.version] for run in shown]
    head = ["RUN", "STATE", "SCORE", "AGE", "SIZE", "VERSION"]
    print(table([head, *rows]) if rows else f"no runs in {runs}")
    if len(shown) < len(found):
        print(f"and {len(found) - len(shown)} records of shardings (runs.shards=true)")
    return compose.OK
