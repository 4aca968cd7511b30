"""The records of finished steps of all lines, each with the sha256 of what stands for its output."""

import json
import time
from pathlib import Path
from typing import Any, Literal

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write, file_sha256
from dragoman.model.untrusted import read_object
from dragoman.services.lines.recipe import Step

MOST_FILES = 100_000  # of a folder that a word names


class Records:
    """The folder `lines` of a home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "lines" / "done"
        self._digests = home / "lines" / "digests.json"
        self._known: dict[str, Any] = dict(read_object(self._digests))

    def state(self, step: Step) -> Literal["made", "lost", "new"]:
        """Returns `made` if the step is recorded and its output is there, `lost` if that was deleted, else `new`."""
        record = read_object(self.folder / f"{step.label}.json")
        if not record:
            return "new"
        hashes = dict(record.get("witnesses") or {})
        for path in step.witnesses:
            if not path.is_file():
                return "lost"
            if self.digest(path) != hashes.get(path.name):
                raise UserError(
                    f"{path}: was changed after the step {step.name} made it. Delete {path.parent} and the line "
                    f"makes it again"
                )
        return "lost" if any("/" in value and not Path(value).exists() for value in step.outputs.values()) else "made"

    def write(self, step: Step, seconds: float, **more: Any) -> None:
        """Records a step that has ended well."""
        for path in step.witnesses:
            if not path.is_file():
                raise UserError(f"step {step.name}: has ended, but {path} is not there")
        witnesses = {path.name: self.digest(path) for path in step.witnesses}
        record = {
            "step": step.name,
            "verb": step.verb,
            "words": list(step.words),
            "seconds": round(seconds, 1),
            "ended": time.time(),
            "witnesses": witnesses,
            **more,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_write(self.folder / f"{step.label}.json", json.dumps(record, indent=2) + "\n")

    def digest(self, path: Path) -> str:
        """Returns the sha256 of a file; of a folder that of its files' names, sizes and times.

        A file that has the size and time of before is not read again.
        """
        path = path.expanduser().resolve()
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())[:MOST_FILES]
            return " ".join(f"{file.relative_to(path)}:{_stamp(file)}" for file in files)
        stamp, cached = _stamp(path), self._known.get(str(path))
        if not (isinstance(cached, list) and cached[0] == stamp):
            cached = self._known[str(path)] = [stamp, file_sha256(path)]
            self._digests.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(self._digests, json.dumps(self._known), durable=False)
        return str(cached[1])


def _stamp(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"
