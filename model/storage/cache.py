"""A cache of this machine, shared by all its processes: objects by their sha256.

CACHE/objects/ab/abcd...        a complete object; CACHE/objects/ab/abcd....note holds its identity when it was checked
CACHE/fetching/abcd...          an object being fetched, with its lock; a killed process leaves its part for the next

Every object came from elsewhere by its hash, so any may be deleted at any time.
"""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.files import atomic_write, exclusive, file_identity, file_sha256
from dragoman.model.storage.remote import download


@dataclass(frozen=True)
class Cache:
    """Objects below `folder`."""

    folder: Path

    def fetch(self, address: str, size: int, sha256: str, deadline: float | None = None) -> Path:
        """Returns the path of the object with this hash; fetches it from `address` unless it is here and unchanged.

        Raises NotThereError, RefusedError, AwayError: as `remote.download`. Raises OSError: the disk is full.
        """
        path = self._path(sha256)
        if _is_sound(path, size, sha256):
            return path
        part = self.folder / "fetching" / sha256
        with exclusive(part.with_suffix(".lock"), wait=True):
            if not _is_sound(path, size, sha256):  # no other process fetched it first
                try:
                    download(address, part, size, sha256, deadline)
                except OSError as problem:
                    problem.filename = problem.filename or str(part)
                    raise
                self._enter(part, path)
        return path

    def adopt(self, path: Path, size: int, sha256: str) -> None:
        """Takes in a local file that is now stored remotely too."""
        if _is_sound(self._path(sha256), size, sha256):
            path.unlink()
        else:
            self._enter(path, self._path(sha256))

    def _path(self, sha256: str) -> Path:
        return self.folder / "objects" / sha256[:2] / sha256

    def _enter(self, file: Path, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        file.replace(path)
        _write_note(path)


def _is_sound(path: Path, size: int, sha256: str) -> bool:
    """Returns True if the object is here and unchanged since it was checked, or passes a new check."""
    try:
        facts = file_identity(path)
        if facts[0] != size:
            return False
        with contextlib.suppress(FileNotFoundError, ValueError):
            if json.loads(_note(path).read_bytes()) == facts:
                return True
        if file_sha256(path) != sha256:
            return False
    except FileNotFoundError:
        return False
    _write_note(path)
    return True


def _write_note(path: Path) -> None:
    atomic_write(_note(path), json.dumps(file_identity(path)), durable=False)


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.note")
