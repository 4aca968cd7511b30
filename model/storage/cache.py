"""A cache of this machine, shared by all its processes: objects by their sha256, with limited size.

CACHE/objects/ab/abcd...        a complete object; CACHE/objects/ab/abcd....note holds its identity when it was checked;
                                the note's time is that of the last request
CACHE/fetching/abcd...          an object being fetched, with its lock; a killed process leaves its part for the next
CACHE/lock                      held while objects are evicted

Every object came from elsewhere by its hash, so the oldest may be evicted at any time. A process that has an object
open keeps it until it closes it.
"""

import contextlib
import errno
import json
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write, exclusive, file_sha256
from dragoman.model.storage.remote import download
from dragoman.model.storage.retry import Patience


@dataclass(frozen=True)
class Cache:
    """Objects below `folder`, together at most `limit` bytes."""

    folder: Path
    limit: int

    def check_holds(self, size: int) -> None:
        """Raises UserError if one object of `size` bytes exceeds the cache's limit."""
        if size > self.limit:
            raise UserError(
                f"paths.cache_gb={self.limit / 1e9:g}: one file of {size / 1e9:.3g} GB is to be kept in the cache "
                f"{self.folder}; give it more room"
            )

    def fetch(self, address: str, size: int, sha256: str, patience: Patience) -> Path:
        """Returns the path of the object with this hash; fetches it from `address` unless it is here and unchanged.

        Another process may evict it at once; use `open_mapped` to hold it.

        Raises UserError: the remote object has another hash, or exceeds the cache's limit. Raises NotThereError,
        RefusedError, AwayError: as `remote.download`. Raises OSError: the disk is full, and nothing can be evicted.
        """
        path = self.folder / "objects" / sha256[:2] / sha256
        if self._is_sound(path, size, sha256):
            return path
        self.check_holds(size)
        part = self.folder / "fetching" / sha256
        with exclusive(part.with_suffix(".lock"), wait=True):
            if self._is_sound(path, size, sha256):  # another process fetched it first
                return path
            path.unlink(missing_ok=True)  # damaged
            self._make_room(size, sha256)
            while True:
                try:
                    download(address, part, size, sha256, patience)
                    break
                except OSError as problem:
                    if problem.errno not in (errno.ENOSPC, errno.EDQUOT) or not self._evict_oldest():
                        raise OSError(problem.errno, problem.strerror, str(part)) from problem
            self._enter(part, path, size)
            atomic_write(_note(path), json.dumps(identity(path)), durable=False)
        return path

    def adopt(self, path: Path, size: int, sha256: str) -> None:
        """Takes in a local file that is now stored remotely too, so it may be evicted like the others."""
        own = self.folder / "objects" / sha256[:2] / sha256
        if size > self.limit or self._is_sound(own, size, sha256):
            path.unlink()
            return
        self._enter(path, own, size)
        atomic_write(_note(own), json.dumps(identity(own)), durable=False)

    def open_mapped(self, address: str, size: int, sha256: str, patience: Patience) -> mmap.mmap:
        """Returns the object, mapped; it stays readable even after eviction. Raises as `fetch`."""
        while True:
            with contextlib.suppress(FileNotFoundError), self.fetch(address, size, sha256, patience).open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _is_sound(self, path: Path, size: int, sha256: str) -> bool:
        """Returns True if the object is here and unchanged since it was checked, or passes a new check."""
        try:
            facts = identity(path)
            if facts[0] != size:
                return False
            try:
                recorded = json.loads(_note(path).read_bytes())
            except (FileNotFoundError, ValueError):
                recorded = None
            if recorded == facts:
                os.utime(_note(path))
                return True
            if file_sha256(path) != sha256:
                return False
            atomic_write(_note(path), json.dumps(facts), durable=False)
        except FileNotFoundError:  # never fetched, or evicted
            return False
        return True

    def _objects(self) -> list[tuple[float, int, Path]]:
        """Returns (time of the last request, bytes, path) of all objects, the oldest first."""
        objects = []
        for path in (self.folder / "objects").glob("*/*"):
            if path.suffix != ".note":
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    used_at = _note(path).stat().st_mtime if _note(path).exists() else status.st_mtime
                    objects.append((used_at, status.st_size, path))
        return sorted(objects)

    def _make_room(self, size: int, own: str) -> None:
        """Evicts until `size` more fits, also counting what other processes have fetched so far."""
        with exclusive(self.folder / "lock", wait=True):
            coming = 0
            for part in (self.folder / "fetching").glob("*"):
                with contextlib.suppress(FileNotFoundError):
                    coming += 0 if part.suffix or part.name == own else part.stat().st_size
            self._evict_for(size + coming)

    def _enter(self, file: Path, path: Path, size: int) -> None:
        """Moves `file` in as the object `path`; evicts again, since another fetch may have used the space."""
        with exclusive(self.folder / "lock", wait=True):
            self._evict_for(size)
            path.parent.mkdir(parents=True, exist_ok=True)
            file.replace(path)

    def _evict_for(self, size: int) -> None:
        """Evicts the oldest until `size` more fits, or nothing is left; the caller holds the lock."""
        objects = self._objects()
        total = sum(bytes_ for _, bytes_, _ in objects)
        for _, bytes_, path in objects:
            if total + size <= self.limit:
                return
            _remove(path)
            total -= bytes_

    def _evict_oldest(self) -> bool:
        """Evicts the oldest object; returns False if there was none."""
        with exclusive(self.folder / "lock", wait=True):
            for _, _, path in self._objects():
                _remove(path)
                return True
        return False


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _note(path).unlink(missing_ok=True)


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.note")


def identity(path: Path) -> list[int]:
    """Returns size, time of the last change in nanoseconds, and inode."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]
