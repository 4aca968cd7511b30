"""A cache of this machine, shared by all its processes: objects by their sha256, of a limited size.

CACHE/objects/ab/abcd...        an object, whole; CACHE/objects/ab/abcd....note what it was when it was checked,
                                and by its time when it was last asked for
CACHE/fetching/abcd...          one that is on its way, with its lock: who is killed there leaves what has come so far
CACHE/lock                      held while room is made

Only what was fetched by its hash comes in here, so everything here is elsewhere too: the oldest may go at any time.
Whoever has an object open keeps it until it is closed.
"""

import contextlib
import errno
import json
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from model.errors import UserError
from model.files import atomic_write, exclusive, file_sha256
from model.storage.remote import download
from model.storage.retry import Patience


@dataclass(frozen=True)
class Cache:
    """Objects below `folder`, of `limit` bytes at most together."""

    folder: Path
    limit: int

    def check_holds(self, size: int) -> None:
        """Raises UserError where one object of `size` bytes is more than the cache may hold."""
        if size > self.limit:
            raise UserError(
                f"paths.cache_gb={self.limit / 1e9:g}: one file of {size / 1e9:.3g} GB is to be kept in the cache "
                f"{self.folder}; give it more room"
            )

    def fetch(self, address: str, size: int, sha256: str, patience: Patience) -> Path:
        """The path of the object with this hash, fetched from `address` unless it is here and as it was.

        Another process may evict it at once; `open_mapped` has it for good.

        Raises:
            UserError: the object elsewhere is another one, or larger than the cache may hold.
            NotThereError, RefusedError, AwayError: as `remote.download`.
            OSError: the disk is full, and nothing here can go.
        """
        path = self.folder / "objects" / sha256[:2] / sha256
        if self._is_sound(path, size, sha256):
            return path
        self.check_holds(size)
        part = self.folder / "fetching" / sha256
        with exclusive(part.with_suffix(".lock"), wait=True):
            if self._is_sound(path, size, sha256):  # another process was first
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
            atomic_write(_note(path), json.dumps(_identity(path)), durable=False)
        return path

    def adopt(self, path: Path, size: int, sha256: str) -> None:
        """Take in a file of this machine that stands elsewhere by now too: it may go like the others."""
        own = self.folder / "objects" / sha256[:2] / sha256
        if size > self.limit or self._is_sound(own, size, sha256):
            path.unlink()
            return
        self._enter(path, own, size)
        atomic_write(_note(own), json.dumps(_identity(own)), durable=False)

    def open_mapped(self, address: str, size: int, sha256: str, patience: Patience) -> mmap.mmap:
        """The object, mapped: it stays for whoever holds it, even when it is evicted. Raises as `fetch`."""
        while True:
            with contextlib.suppress(FileNotFoundError), self.fetch(address, size, sha256, patience).open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _is_sound(self, path: Path, size: int, sha256: str) -> bool:
        """Whether the object is here: as it was when it was checked, or checked again."""
        try:
            identity = _identity(path)
            if identity[0] != size:
                return False
            try:
                known = json.loads(_note(path).read_bytes())
            except (FileNotFoundError, ValueError):
                known = None
            if known == identity:
                os.utime(_note(path))
                return True
            if file_sha256(path) != sha256:
                return False
            atomic_write(_note(path), json.dumps(identity), durable=False)
        except FileNotFoundError:  # never here, or evicted meanwhile
            return False
        return True

    def _objects(self) -> list[tuple[float, int, Path]]:
        """(when it was last asked for, bytes, path) of all objects, the oldest first."""
        found = []
        for path in (self.folder / "objects").glob("*/*"):
            if path.suffix != ".note":
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    asked = _note(path).stat().st_mtime if _note(path).exists() else status.st_mtime
                    found.append((asked, status.st_size, path))
        return sorted(found)

    def _make_room(self, size: int, own: str) -> None:
        """Evict until `size` more fits, with what others have fetched so far counted."""
        with exclusive(self.folder / "lock", wait=True):
            coming = 0
            for part in (self.folder / "fetching").glob("*"):
                with contextlib.suppress(FileNotFoundError):
                    coming += 0 if part.suffix or part.name == own else part.stat().st_size
            self._evict_for(size + coming)

    def _enter(self, file: Path, path: Path, size: int) -> None:
        """Make `file` the object `path`; who fetched another one meanwhile may have taken the room made for it."""
        with exclusive(self.folder / "lock", wait=True):
            self._evict_for(size)
            path.parent.mkdir(parents=True, exist_ok=True)
            file.replace(path)

    def _evict_for(self, size: int) -> None:
        """Evict the oldest until `size` more fits, or nothing is left; the lock is held."""
        objects = self._objects()
        total = sum(bytes_ for _, bytes_, _ in objects)
        for _, bytes_, path in objects:
            if total + size <= self.limit:
                return
            _remove(path)
            total -= bytes_

    def _evict_oldest(self) -> bool:
        """Whether there was an object to evict."""
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


def _identity(path: Path) -> list[int]:
    """Size, time of the last change in nanoseconds, and inode."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]
