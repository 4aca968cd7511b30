"""`dragoman runs`: the runs in `paths.runs`, with state, score, age, size and the version that each became."""

from collections.abc import Sequence
from pathlib import Path

from conf import compose
from model.storage.mirror import local_folder
from services.commands.run_folders import age, run_folders, size, table


def main(argv: Sequence[str]) -> int:
    """The verb's exit code."""

    def task(paths: dict[str, str]) -> int:
        return show(local_folder(paths["runs"], paths["cache"]))

    return compose.run_section(task, "paths", dict, argv, "runs")


def show(runs: Path) -> int:
    """Print a line a run, the one changed last first."""
    rows = [
        [run.path.name, run.state, run.score, age(run.changed), size(run.bytes), run.version]
        for run in run_folders(runs)
    ]
    print(table(["RUN", "STATE", "SCORE", "AGE", "SIZE", "VERSION"], rows) if rows else f"no runs in {runs}")
    return compose.OK
