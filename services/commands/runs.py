"""`dragoman runs`: the runs in `paths.runs`, with state, score, age, size and the version that each became."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf import compose
from model.storage.mirror import local_folder
from services.commands.run_folders import age, run_folders, size, table


@dataclass
class RunsRoot:
    """What the verb reads, as plain values."""

    paths: dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """The verb's exit code."""
    return compose.run(lambda root: show(local_folder(root.paths["runs"], root.paths["cache"])), RunsRoot, argv, "runs")


def show(runs: Path) -> int:
    """Print a line a run, the one changed last first."""
    rows = [
        [run.path.name, run.state, run.score, age(run.changed), size(run.bytes), run.version]
        for run in run_folders(runs)
    ]
    print(table(["RUN", "STATE", "SCORE", "AGE", "SIZE", "VERSION"], rows) if rows else f"no runs in {runs}")
    return compose.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
