"""Makes a backup while everything runs.

The databases come first: whatever they name is on the disk by then, and is copied after them. A file that is deleted
meanwhile is left out, and one that grows is copied as long as it was.
"""

import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.storage import remote
from dragoman.model.storage.places import is_address, join
from dragoman.model.storage.retry import NotThereError, Patience
from dragoman.services.backup.archive import FORMAT, Archive
from dragoman.services.backup.databases import Kept, databases
from dragoman.services.backup.home import LOGS, copy_as_is, files, is_database
from dragoman.services.backup.settings import BackupConfig
from dragoman.services.store import copying
from dragoman.services.version import version

AT_ONCE = 8  # files
Entry = dict[str, Any]  # of a manifest: path, size and sha256 among others


def make(config: BackupConfig, place: str) -> dict[str, Any]:
    """Makes a backup in the archive at `place`; returns its manifest, with `seconds`, `new` and `deleted` beside.

    Raises:
        UserError: there is no home, or the archive lies in it.
        ServiceError: a database or an address does not answer.
    """
    if is_address(config.home):
        raise UserError(f"backup.home={config.home}: is an address; name a folder, and the address in backup.buckets")
    home, archive = Path(config.home).absolute(), Archive(place, Patience(config.patience))
    if not home.is_dir():
        raise UserError(f"backup.home={config.home}: there is no such folder")
    if archive.folder is not None and archive.folder.is_relative_to(home):
        raise UserError(f"{place}: lies in the home {home}; name a place outside of it")
    began = time.time()
    mask = os.umask(0o077)  # the archive holds the home's secrets
    try:
        with archive.writing() as work:
            making = _Making(config, home, archive, work)
            manifest = making.write()
            deleted = archive.prune(config.keep) if config.keep else 0
    finally:
        os.umask(mask)
    return {**manifest, "new": making.new, "deleted": deleted, "seconds": round(time.time() - began, 1)}


class _Making:
    """One backup; `work` is a folder for copies on their way into the archive."""

    def __init__(self, config: BackupConfig, home: Path, archive: Archive, work: Path) -> None:
        self.config, self.home, self.archive, self.work = config, home, archive, work
        self.new: list[int] = []  # bytes of each object that the archive had not
        self.before = archive.newest() or {"files": [], "buckets": {}}

    def write(self) -> dict[str, Any]:
        kept = databases(self.config)
        tables = {one.name: self._database(one) for one in kept if one.filled()}
        found = self._files([one.file for one in kept if not one.server])
        buckets = {address: self._bucket(address) for address in self.config.buckets}
        now = datetime.now(UTC)
        manifest = {
            "format_version": FORMAT,
            "name": f"{now:%Y%m%dT%H%M%S}-{uuid4().hex[:4]}",
            "version": version(),
            "made": now.isoformat(timespec="seconds"),
            "home": str(self.home),
            "databases": tables,
            "files": found,
            "buckets": buckets,
        }
        self.archive.enter(manifest)
        return manifest

    def _database(self, one: Kept) -> Entry:
        copy = self._name()
        revision = one.copy_to(copy)
        counts = copying.count_rows(copy, one.counted)
        return {"revision": revision, "counts": counts, **self._put_file(copy)}

    def _files(self, apart: list[Path]) -> list[Entry]:
        leave = {Path(place).expanduser().absolute() for place in self.config.leave}
        leave |= {path.with_name(f"{path.name}{ending}") for path in apart for ending in ("", *LOGS)}
        known = {one["path"]: one for one in self.before["files"]}
        return _each(lambda path: self._file(path, known), files(self.home, leave))

    def _file(self, path: Path, known: dict[str, Entry]) -> Entry | None:
        name = path.relative_to(self.home).as_posix()
        try:
            status = path.stat()
            before: Entry = known.get(name, {})
            same = (before.get("changed"), before.get("size")) == (status.st_mtime_ns, status.st_size)
            if same and not before.get("database") and self.archive.has(before["size"], before["sha256"]):
                return before
            copy, entry = self._name(), {"path": name, "changed": status.st_mtime_ns}
            if is_database(path):
                copying.copy_file(path, copy)
                return {**entry, "database": True, **self._put_file(copy)}
            return {**entry, **self._put(copy, *copy_as_is(path, copy))}
        except FileNotFoundError:  # deleted meanwhile, as old checkpoints are
            return None

    def _bucket(self, address: str) -> list[Entry]:
        known = {one["path"]: one for one in self.before["buckets"].get(address, [])}
        patience = Patience(self.config.patience)

        def copied(name: str) -> Entry | None:
            place = join(address, name)
            try:
                now = remote.version(place, patience)
                before: Entry = known.get(name, {})
                if now and before.get("version") == now and self.archive.has(before["size"], before["sha256"]):
                    return before
                copy = self._name()
                remote.download_unchecked(place, copy, patience)
                return {"path": name, "version": now, **self._put_file(copy)}
            except NotThereError:
                return None

        return _each(copied, remote.names(address, patience))

    def _name(self) -> Path:
        return self.work / uuid4().hex

    def _put_file(self, copy: Path) -> Entry:
        return self._put(copy, copy.stat().st_size, file_sha256(copy))

    def _put(self, copy: Path, size: int, sha256: str) -> Entry:
        if self.archive.put(copy, size, sha256):
            self.new.append(size)
        copy.unlink(missing_ok=True)
        return {"size": size, "sha256": sha256}


def _each(task: Any, found: Iterable[Any]) -> list[Entry]:
    """Returns the entries of what is still there."""
    with ThreadPoolExecutor(AT_ONCE, "backup") as pool:
        return [one for one in pool.map(task, found) if one is not None]
