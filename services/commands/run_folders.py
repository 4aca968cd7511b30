"""The folders of runs, as their own files tell of them: no model is loaded, no server asked."""

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.bundles.directory import CONFIG
from model.runs import checkpoints, lock, paths, spool
from model.runs.bundles import is_released
from model.untrusted import finite, read_object

# What a model is judged by, the first that it has: how a score's name ends, and how it is written.
SCORES = (("_bleu", "BLEU {:.2f}"), ("_perplexity", "perplexity {:.2f}"), ("similarity/mean", "similarity {:.2f}"))


@dataclass(frozen=True)
class RunFolder:
    """A run's folder and what is to be known of it at a glance."""

    path: Path
    changed: float  # when anything in it was, in seconds since 1970
    bytes: int

    @property
    def alive(self) -> bool:
        """Whether a process is at work on it."""
        return lock.is_held(self.path) or spool.Spool(self.path).writer_alive()

    @property
    def unsent(self) -> bool:
        """Whether records in it have not reached MLflow: nothing else has them."""
        return spool.pending(self.path) > 0

    @property
    def is_sharding(self) -> bool:
        """Whether it is no run but what MLflow was told of a sharding."""
        return self.path.name.startswith("shard-") and not (self.path / paths.RECORD).is_file()

    @property
    def state(self) -> str:
        """What it has come to."""
        if self.alive:
            return "running"
        if is_released(self.path):
            return "finished"
        steps = checkpoints.every(self.path)
        if steps:
            return f"at step {max(steps):,}"
        return "record" if not (self.path / paths.RECORD).is_file() else "begun"

    @property
    def score(self) -> str:
        """Of its bundle."""
        scores = read_object(self.path / paths.BUNDLE / CONFIG).get("scores")
        return headline(scores if isinstance(scores, dict) else {})

    @property
    def version(self) -> str:
        """MODEL/VERSION in the registry, as the run noted it."""
        note = read_object(self.path / paths.RELEASE)
        return f"{note.get('model')}/{note['version']}" if note.get("version") else "-"


def run_folders(runs: Path) -> list[RunFolder]:
    """Those of runs below `runs`, the one changed last first; other folders there are left out."""
    if not runs.is_dir():
        return []
    found = [
        RunFolder(path, *extent(path))
        for path in runs.iterdir()
        if path.is_dir() and not path.is_symlink() and paths.is_run(path)
    ]
    return sorted(found, key=lambda run: (-run.changed, run.path.name))


def extent(path: Path) -> tuple[float, int]:
    """When anything below `path` was changed last, in seconds since 1970, and the bytes of all its files."""
    changed, size = path.lstat().st_mtime, 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                status = Path(folder, name).lstat()
                changed, size = max(changed, status.st_mtime), size + status.st_size
    return changed, size


def headline(scores: Mapping[str, Any]) -> str:
    """The score that a model is judged by: of a bundle's `scores` (a mapping a split) or of a version's tags."""
    flat = dict(scores)
    for split, values in scores.items():
        if isinstance(values, Mapping):
            flat |= {f"{split}_{name}": value for name, value in values.items()}
    for ending, written in SCORES:
        for name in sorted(flat):
            value = flat[name]
            number = _number(value) if isinstance(value, str) else finite(value)  # tags are texts
            if name.endswith(ending) and number is not None:
                return written.format(number)
    return "-"


def _number(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        return None


def age(since: float, now: float | None = None) -> str:
    """How long ago `since` was, for people: "5 min", "3 h", "12 days"."""
    seconds = max(0.0, (time.time() if now is None else now) - since)
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 if unit == "days" else 1) * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """Bytes for people, in megabytes of 10^6."""
    return f"{count / 1e6:,.1f} MB"
