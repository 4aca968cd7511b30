"""Makes a backup while everything runs.

The databases come first: whatever they name is on the disk by then, and is copied after them. A file that is deleted
meanwhile is left out, and one that grows is copied as long as it was.
"""

import contextlib
import hashlib
import logging
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from dragoman.model.errors import UserError
from dragoman.model.files import PART, file_sha256
from dragoman.model.storage import remote
from dragoman.model.storage.places import is_address, join
from dragoman.model.storage.retry import NotThereError, Patience
from dragoman.services.backup.copies import FORMAT, Copy, Entry, bucket_name
from dragoman.services.backup.databases import Kept, databases
from dragoman.services.backup.settings import BackupConfig
from dragoman.services.store import copying
from dragoman.services.store.copying import HEADER
from dragoman.services.version import version

OF_A_START = {f"service/{name}" for name in ("address.json", "children.json", "lock")}  # written by each `up`
LOGS = ("-wal", "-shm", "-journal")  # of a sqlite database, whose copy has what is in them
IGNORED = {"lost+found"}  # of a file system
BLOCK = 1 << 20
logger = logging.getLogger(__name__)


def files(home: Path, leave: Collection[Path]) -> Iterator[Path]:
    """Yields the regular files of a home that a backup has, in order; `leave` are files and folders to leave out."""
    links = 0
    for folder, folders, names in os.walk(home):
        inside = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if inside / name not in leave and not name.startswith(PART) and not (inside == home and name in IGNORED)
        )
        for name in sorted(names):
            path = inside / name
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if stat.S_ISLNK(mode):
                links += 1
            elif (
                stat.S_ISREG(mode)
                and path not in leave
                and not name.startswith(PART)
                and path.relative_to(home).as_posix() not in OF_A_START
                and not (name.endswith(LOGS) and path.with_name(name.rpartition("-")[0]).is_file())
            ):
                yield path
    if links:
        logger.warning("%s: %d symbolic links are left out; what they lead to is not in the backup", home, links)


def is_database(path: Path) -> bool:
    """Returns True if the file is a sqlite database."""
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER


def hash_as_is(path: Path, target: Path | None = None) -> tuple[int, str]:
    """Returns size and sha256 of a file as long as it is now, and copies it; what is added meanwhile is left out."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as source, target.open("wb") if target else contextlib.nullcontext() as copy:
        rest = os.fstat(source.fileno()).st_size
        while rest and (block := source.read(min(BLOCK, rest))):
            digest.update(block)
            size, rest = size + len(block), rest - len(block)
            if copy is not None:
                copy.write(block)
        if copy is not None:
            copy.flush()
            os.fsync(copy.fileno())
    return size, digest.hexdigest()


def check_path(name: str) -> None:
    """Raises UserError if a path in a backup leads out of the home."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        raise UserError(f"the backup names the file {name!r}, which would lie outside of the home")


AT_ONCE = 8  # files


def make(config: BackupConfig, place: str) -> Entry:
    """Makes a backup at `place`, or brings the one there up to date; returns its manifest, with `seconds`, `new` (bytes
    of each file that was written) and `damaged` (names of files whose copy was damaged) beside.

    Raises:
        UserError: there is no home, the place lies in it or holds something else.
        ServiceError: a database or an address does not answer.
    """
    if is_address(config.home):
        raise UserError(f"backup.home={config.home}: is an address; name a folder, and the address in backup.buckets")
    home, copy = Path(config.home).absolute(), Copy(place, Patience(config.patience))
    if not home.is_dir():
        raise UserError(f"backup.home={config.home}: there is no such folder")
    if copy.folder is not None and copy.folder.is_relative_to(home):
        raise UserError(f"{place}: lies in the home {home}; name a place outside of it")
    began = time.time()
    mask = os.umask(0o077)  # the copy holds the home's secrets
    try:
        with copy.writing() as work:
            making = _Making(config, home, copy, work)
            manifest = making.write()
    finally:
        os.umask(mask)
    facts = {"new": making.new, "damaged": sorted(making.damaged), "seconds": round(time.time() - began, 1)}
    return {**manifest, **facts}


class _Making:
    """One backup; `work` is a folder for copies on their way."""

    def __init__(self, config: BackupConfig, home: Path, copy: Copy, work: Path) -> None:
        self.config, self.home, self.copy, self.work = config, home, copy, work
        self.new: list[int] = []
        self.damaged: list[str] = []
        self.before = copy.before()

    def write(self) -> Entry:
        kept = databases(self.config)
        copies = [(database, self._name()) for database in kept if database.filled()]
        revisions = [database.copy_to(path) for database, path in copies]  # before anything of the last backup changes
        self.copy.begin()
        tables = {
            database.name: self._database(database, path, revision)
            for (database, path), revision in zip(copies, revisions, strict=True)
        }
        saved_files = self._files([database.file for database in kept if not database.server])
        buckets = {address: self._bucket(address) for address in self.config.buckets}
        now = datetime.now(UTC)
        manifest = {
            "format_version": FORMAT,
            "name": f"{now:%Y%m%dT%H%M%S}",
            "version": version(),
            "made": now.isoformat(timespec="seconds"),
            "home": str(self.home),
            "databases": tables,
            "files": saved_files,
            "buckets": buckets,
        }
        self.copy.finish(manifest)
        return manifest

    def _database(self, database: Kept, path: Path, revision: str | None) -> Entry:
        counts = copying.count_rows(path, database.counted)
        return {"revision": revision, "counts": counts, **self._put(path, f"databases/{database.name}")}

    def _files(self, apart: list[Path]) -> list[Entry]:
        leave = {Path(place).expanduser().absolute() for place in self.config.leave}
        leave |= {path.with_name(f"{path.name}{ending}") for path in apart for ending in ("", *LOGS)}
        return _each(self._file, files(self.home, leave))

    def _file(self, path: Path) -> Entry | None:
        name = path.relative_to(self.home).as_posix()
        try:
            entry = {"path": name, "changed": path.stat().st_mtime_ns}
            if is_database(path):
                copy = self._name()
                copying.copy_file(path, copy)
                return {**entry, "database": True, **self._put(copy, f"home/{name}")}
            if content := self._kept(f"home/{name}", *hash_as_is(path)):
                return {**entry, **content}
            copy = self._name()
            return {**entry, **self._put(copy, f"home/{name}", hash_as_is(path, copy))}
        except FileNotFoundError:  # deleted meanwhile, as old checkpoints are
            return None

    def _bucket(self, address: str) -> list[Entry]:
        patience = Patience(self.config.patience)

        def copied(name: str) -> Entry | None:
            try:
                copy = self._name()
                remote.download_unchecked(join(address, name), copy, patience)
                return {"path": name, **self._put(copy, bucket_name(address, name))}
            except NotThereError:
                return None

        return _each(copied, remote.names(address, patience))

    def _name(self) -> Path:
        return self.work / uuid4().hex

    def _kept(self, name: str, size: int, sha256: str) -> Entry | None:
        """Returns the entry of a file if its copy has this content."""
        hash_before = self.before.get(name)
        if self.copy.has(name, size, sha256, hash_before):
            return {"size": size, "sha256": sha256}
        if hash_before == sha256:  # the file is as it was, and its copy is not
            self.damaged.append(name)
        return None

    def _put(self, path: Path, name: str, content: tuple[int, str] | None = None) -> Entry:
        """Moves a file in, unless the copy has it; `content`: its size and sha256, which the copy has not."""
        size, sha256 = content or (path.stat().st_size, file_sha256(path))
        if content is not None or self._kept(name, size, sha256) is None:
            self.copy.put(path, name, size, sha256)
            self.new.append(size)
        path.unlink(missing_ok=True)
        return {"size": size, "sha256": sha256}


def _each(task: Any, items: Iterable[Any]) -> list[Entry]:
    """Returns the entries of what is still there."""
    with ThreadPoolExecutor(AT_ONCE, "backup") as pool:
        return [result for result in pool.map(task, items) if result is not None]
