"""A backup: a plain copy of files and databases, in a folder or at an address, with the sha256 of each.

home/...               the files of the home
databases/NAME         each database as a sqlite file
buckets/HASH/...       the objects of each bucket
backup.json            the manifest: every file with size and sha256; until it is written last, it says `unfinished`

The next backup brings the copy up to date. What keeps earlier states is restic, or the versions of a bucket. Archives
of before (index.json, objects by their sha256) are read and not written.
"""

import contextlib
import hashlib
import json
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.model.errors import UserError
from dragoman.model.files import PART, atomic_write, exclusive, file_sha256
from dragoman.model.storage import remote
from dragoman.model.storage.places import is_address, join, local_path
from dragoman.model.storage.retry import NotThereError, Patience

MANIFEST, LOCK, OLD_INDEX = "backup.json", "lock", "index.json"
LAYOUT = {MANIFEST, LOCK, "home", "databases", "buckets"}  # all that a backup has at its top
FORMAT, OLD_FORMAT = 2, 1
Entry = dict[str, Any]  # of a manifest: size and sha256 among others


class Place(NamedTuple):
    """A file of a backup."""

    shown: str  # in messages
    entry: Entry
    name: str  # below the backup's place
    target: str  # where a restore writes it: home/..., or a database's name; empty: an object of a bucket


class Copy:
    """The backup at `place`, a folder or a writable address."""

    def __init__(self, place: str, patience: Patience) -> None:
        self.place, self.patience = place, patience
        self.folder = None if is_address(place) else local_path(place).absolute()
        if self.folder is None:
            remote.check_writable(place)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Path]:
        """Yields a folder for copies on their way, on the backup's own disk if it has one."""
        self.check_place()
        if self.folder is None:
            with tempfile.TemporaryDirectory(prefix="dragoman-backup-") as name:
                yield Path(name)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with exclusive(self.folder / LOCK) as mine:
            if not mine:
                raise UserError(f"{self.place}: another backup is being written there")
            for left in self.folder.glob(f"{PART}*"):  # of a killed one
                shutil.rmtree(left, ignore_errors=True)
            work = self.folder / f"{PART}{secrets.token_hex(8)}"
            work.mkdir()
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)

    def check_place(self) -> None:
        """Raises UserError if something other than a backup of this format is there."""
        if self.folder is None:
            entries = {name.partition("/")[0] for name in remote.names(self.place, self.patience)}
        else:
            entries = {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else set()
        entries = {name for name in entries if not name.startswith(PART)}
        other = entries - LAYOUT if MANIFEST in entries else entries - {LOCK}
        if other:
            old = " (backups of an earlier version, which dragoman restore reads)" if OLD_INDEX in entries else ""
            raise UserError(f"{self.place}: holds {min(other)}{old}; name an empty folder, or a backup")

    def begin(self) -> None:
        """Marks the copy as unfinished: files of it are about to change."""
        self.write(MANIFEST, {"format_version": FORMAT, "unfinished": True})

    def has(self, name: str, size: int, sha256: str, stored_hash: str | None) -> bool:
        """Returns True if the copy has a file with this content. `stored_hash`: what the last manifest says of it.

        A folder's file is read. A bucket checks its objects itself, so there the size and the manifest are enough.
        """
        if self.folder is not None:
            return self.check(name, size, sha256)
        with contextlib.suppress(NotThereError):
            return stored_hash == sha256 and remote.size(join(self.place, name), self.patience) == size
        return False

    def put(self, path: Path, name: str, size: int, sha256: str) -> None:
        """Moves a file in, and reads it back. Raises UserError if what was written differs from the file."""
        if self.folder is None:
            remote.upload(path, join(self.place, name), self.patience)
        else:
            target = self.folder / name
            for above in target.parents:  # what was a file is a folder now, or the other way round
                if above.is_file():
                    above.unlink()
            if target.is_dir():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        if not self.check(name, size, sha256):
            raise UserError(f"{self.place}/{name}: what was written differs from what was read; is the disk sound?")

    def check(self, name: str, size: int, sha256: str) -> bool:
        """Reads a file of the copy; returns True if it is there and whole."""
        if self.folder is not None:
            path = self.folder / name
            return path.is_file() and path.stat().st_size == size and file_sha256(path) == sha256
        with tempfile.TemporaryDirectory(prefix="dragoman-backup-") as work:
            return self.get(name, size, sha256, Path(work, "file"))

    def get(self, name: str, size: int, sha256: str, target: Path) -> bool:
        """Writes a file of the copy to `target`; returns False if it is missing or damaged."""
        if self.folder is None:
            with contextlib.suppress(UserError):  # missing, or another content
                remote.download(join(self.place, name), target, size, sha256, self.patience)
                return True
            return False
        path = self.folder / name
        if not path.is_file():
            return False
        shutil.copyfile(path, target)
        return target.stat().st_size == size and file_sha256(target) == sha256

    def finish(self, manifest: Entry) -> None:
        """Completes a backup, whose files are written; deletes what the home no longer has."""
        self.write(MANIFEST, manifest)
        kept = {entry.name for entry in files_of(manifest)} | {MANIFEST, LOCK}
        if self.folder is None:
            for name in set(remote.names(self.place, self.patience)) - kept:
                remote.delete(join(self.place, name), self.patience)
            return
        for path in sorted(self.folder.rglob("*"), reverse=True):  # a folder after what is in it
            name = path.relative_to(self.folder).as_posix()
            if name.startswith(PART):
                continue
            if path.is_dir() and not path.is_symlink():
                with contextlib.suppress(OSError):  # it holds something
                    path.rmdir()
            elif name not in kept:
                path.unlink()

    def manifest(self, name: str | None = None) -> Entry:
        """Returns the backup's manifest; of an archive of before that of `name`, or of the newest."""
        content = self._object(MANIFEST)
        if content is None:
            return self._old_manifest(name)
        if name is not None:
            raise UserError(f"{self.place}: is one backup and has no {name}; restic or the bucket keep earlier ones")
        if content.get("unfinished"):
            raise UserError(
                f"{self.place}: the last backup there did not end; make it again: dragoman backup {self.place}"
            )
        return content

    def before(self) -> dict[str, str]:
        """Returns name -> sha256 of the copy's files as the last manifest says; empty if there is none to go by."""
        with contextlib.suppress(UserError):
            return {entry.name: entry.entry["sha256"] for entry in files_of(self.manifest())}
        return {}

    def _old_manifest(self, name: str | None) -> Entry:
        """Returns a manifest of an archive whose backups shared their objects (format 1)."""
        index = self._object(OLD_INDEX)
        hashes = {str(backup["name"]): str(backup["sha256"]) for backup in (index or {}).get("backups", ())}
        if not hashes:
            raise UserError(f"{self.place}: holds no backup; dragoman backup {self.place} makes one")
        name = name or list(hashes)[-1]
        if name not in hashes:
            raise UserError(f"{self.place}: has no backup {name}; it has {', '.join(hashes)}")
        content = self.read(f"backups/{name}.json")
        if content is None or hashlib.sha256(content).hexdigest() != hashes[name]:
            raise UserError(f"{self.place}/backups/{name}.json: is {'missing' if content is None else 'damaged'}")
        manifest: Entry = json.loads(content)
        return manifest

    def _object(self, name: str) -> Entry | None:
        content = self.read(name)
        if content is None:
            return None
        try:
            content_read = json.loads(content)
        except ValueError:
            content_read = None
        if not isinstance(content_read, dict) or "format_version" not in content_read:
            raise UserError(f"{self.place}/{name}: is damaged; make the backup again: dragoman backup {self.place}")
        return content_read

    def read(self, name: str) -> bytes | None:
        """Returns the content of a small file; None if it is missing."""
        with contextlib.suppress(NotThereError, FileNotFoundError):
            if self.folder is None:
                return remote.read(join(self.place, name), self.patience)
            return (self.folder / name).read_bytes()
        return None

    def write(self, name: str, content: Entry) -> None:
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        if self.folder is None:
            remote.write(join(self.place, name), text, self.patience)
            return
        atomic_write(self.folder / name, text)


def files_of(manifest: Entry) -> Iterator[Place]:
    """Yields every file that a manifest names."""
    old = manifest["format_version"] == OLD_FORMAT

    def place(place_shown: str, entry: Entry, name: str, target: str) -> Place:
        sha256 = entry["sha256"]
        return Place(place_shown, entry, f"objects/{sha256[:2]}/{sha256}" if old else name, target)

    for name, entry in manifest["databases"].items():
        yield place(name, entry, f"databases/{name}", name)
    for entry in manifest["files"]:
        yield place(entry["path"], entry, f"home/{entry['path']}", f"home/{entry['path']}")
    for address, entries in manifest["buckets"].items():
        for entry in entries:
            yield place(join(address, entry["path"]), entry, bucket_name(address, entry["path"]), "")


def bucket_name(address: str, path: str) -> str:
    """Returns the name of the copy of a bucket's object."""
    return f"buckets/{hashlib.sha256(address.encode()).hexdigest()[:12]}/{path}"
