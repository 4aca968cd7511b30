"""`dragoman runs`: lists the runs in `paths.runs`, read from their own files: loads no model and asks no server."""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dragoman.conf import compose, showing
from dragoman.model.bundles.directory import CONFIG
from dragoman.model.plural import plural
from dragoman.model.runs import checkpoints, lock, paths, spool
from dragoman.model.runs.bundles import has_bundle
from dragoman.model.storage.places import local_folder
from dragoman.model.untrusted import finite, read_object
from dragoman.services.jobs.client.table import Column
from dragoman.services.jobs.client.table import show as show_table

# The scores of a model, in order of preference: the suffix of a score's name, and its format.
SCORES = (("_bleu", "BLEU {:.2f}"), ("_perplexity", "perplexity {:.2f}"), ("similarity/mean", "similarity {:.2f}"))


@dataclass(frozen=True)
class RunFolder:
    """A run's folder and a summary of it."""

    path: Path
    changed: float  # time of the last change in it, in seconds since 1970
    bytes: int

    @property
    def alive(self) -> bool:
        """Returns True if a process works on it."""
        return lock.is_held(self.path) or spool.Spool(self.path).writer_alive()

    @property
    def is_sharding(self) -> bool:
        """Returns True if it is no run but MLflow's record of a sharding."""
        return self.path.name.startswith("shard-") and not (self.path / paths.RECORD).is_file()

    @property
    def state(self) -> str:
        if self.alive:
            return "running"
        if has_bundle(self.path):
            return "finished"
        steps = checkpoints.every(self.path)
        if steps:
            return f"at step {max(steps):,}"
        return "record" if not (self.path / paths.RECORD).is_file() else "begun"

    @property
    def score(self) -> str:
        scores = read_object(self.path / paths.BUNDLE / CONFIG).get("scores")
        return headline(scores if isinstance(scores, dict) else {})

    @property
    def version(self) -> str:
        """Returns MODEL/VERSION in the registry, from the run's record."""
        note = read_object(self.path / paths.RELEASE)
        return f"{note.get('model')}/{note['version']}" if note.get("version") else "-"


def run_folders(runs: Path) -> list[RunFolder]:
    """Returns the runs below `runs` and below the folders of owners there, last changed first; ignores others."""
    if not runs.is_dir():
        return []
    folders = [
        RunFolder(path, *extent(path))
        for path in (*runs.glob("*"), *runs.glob("*/*"))
        if path.is_dir() and not path.is_symlink() and paths.is_run(path)
    ]
    return sorted(folders, key=lambda run: (-run.changed, run.path.name))


def extent(path: Path) -> tuple[float, int]:
    """Returns the time of the last change below `path`, in seconds since 1970, and the bytes of all its files."""
    changed, size = path.lstat().st_mtime, 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
                status = Path(folder, name).lstat()
                changed, size = max(changed, status.st_mtime), size + status.st_size
    return changed, size


def headline(scores: Mapping[str, Any]) -> str:
    """Returns a model's main score: from a bundle's `scores` (one mapping per split) or a version's tags."""
    flat = dict(scores)
    for split, values in scores.items():
        if isinstance(values, Mapping):
            flat |= {f"{split}_{name}": value for name, value in values.items()}
    for ending, written in SCORES:
        for name in sorted(flat):
            value = flat[name]
            number = _number(value) if isinstance(value, str) else finite(value)  # tags are strings
            if name.endswith(ending) and number is not None:
                return written.format(number)
    return "-"


def _number(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        return None


def age(since: float, now: float | None = None) -> str:
    """Returns the time since `since` as text: "5 min", "3 h", "12 days"."""
    seconds = max(0.0, (time.time() if now is None else now) - since)
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 if unit == "days" else 1) * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """Returns bytes as text, in megabytes of 10^6."""
    return f"{count / 1e6:,.1f} MB"


AGE_AND_SIZE: dict[str, Column] = {  # columns of a table of folders
    "AGE": lambda record: age(record["changed"]),
    "SIZE": lambda record: size(record["bytes"]),
}


@dataclass
class RunsConfig:
    """The runs to list."""

    shards: bool = False  # also list the records of shardings


@dataclass
class RunsRoot:
    """The sections that the command reads."""

    FILE: ClassVar = "runs"

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
