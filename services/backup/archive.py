"""An archive of backups, in a folder or at an address. Backups share their objects, so that each adds what is new.

objects/ab/abcd...     a file's content, by its sha256
backups/NAME.json      a backup: every file with size and sha256; written after its objects
index.json             the names of the backups and the sha256 of their manifests, oldest first; written last

A backup that is not in the index does not exist; the objects of an interrupted one serve the next.
"""

import contextlib
import hashlib
import json
import logging
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import PART, atomic_write, exclusive, file_sha256
from dragoman.model.storage import remote
from dragoman.model.storage.places import is_address, join, local_path
from dragoman.model.storage.retry import NotThereError, Patience

INDEX = "index.json"
FORMAT = 1
logger = logging.getLogger(__name__)


class Archive:
    """The backups below `place`, a folder or a writable address."""

    def __init__(self, place: str, patience: Patience) -> None:
        self.place, self.patience = place, patience
        self.folder = None if is_address(place) else local_path(place).absolute()
        if self.folder is None:
            remote.check_writable(place)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Path]:
        """Yields a folder for new objects, on the archive's own disk if it has one.

        Raises:
            UserError: another backup writes to the folder.
        """
        if self.folder is None:
            with tempfile.TemporaryDirectory(prefix="dragoman-backup-") as name:
                yield Path(name)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with exclusive(self.folder / "lock") as mine:
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

    def put(self, path: Path, size: int, sha256: str) -> bool:
        """Moves a file in as an object, and reads it back; returns False if the archive had it.

        Raises:
            UserError: what was written differs from the file.
        """
        if self.has(size, sha256):
            return False
        name = _name(sha256)
        if self.folder is None:
            remote.upload(path, join(self.place, name), self.patience)
        else:
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        if not self.check(size, sha256):
            raise UserError(f"{self.place}/{name}: what was written differs from what was read; is the disk sound?")
        return True

    def has(self, size: int, sha256: str) -> bool:
        """Returns True if the archive has an object of this name and size."""
        with contextlib.suppress(NotThereError, FileNotFoundError):
            if self.folder is None:
                return remote.size(join(self.place, _name(sha256)), self.patience) == size
            return (self.folder / _name(sha256)).stat().st_size == size
        return False

    def check(self, size: int, sha256: str) -> bool:
        """Reads an object; returns True if it is there and whole."""
        if self.folder is not None:
            path = self.folder / _name(sha256)
            return path.is_file() and path.stat().st_size == size and file_sha256(path) == sha256
        with tempfile.TemporaryDirectory(prefix="dragoman-backup-") as work:
            return self.get(size, sha256, Path(work, "object"))

    def get(self, size: int, sha256: str, target: Path) -> bool:
        """Writes an object to `target`; returns False if it is missing or damaged."""
        if self.folder is None:
            with contextlib.suppress(UserError):  # missing, or another content
                remote.download(join(self.place, _name(sha256)), target, size, sha256, self.patience)
                return True
            return False
        path = self.folder / _name(sha256)
        if not path.is_file():
            return False
        shutil.copyfile(path, target)
        return target.stat().st_size == size and file_sha256(target) == sha256

    def names(self) -> dict[str, str]:
        """Returns the backups' names, oldest first, each with the sha256 of its manifest.

        Raises:
            UserError: the index is damaged, or of another format.
        """
        content = self._read(INDEX)
        if content is None:
            return {}
        try:
            index = json.loads(content)
            if index["format_version"] != FORMAT:
                raise UserError(f"{self.place}/{INDEX}: format {index['format_version']}; this version reads {FORMAT}")
            return {str(one["name"]): str(one["sha256"]) for one in index["backups"]}
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{self.place}/{INDEX}: is damaged") from None

    def manifest(self, name: str | None = None) -> dict[str, Any]:
        """Returns a backup's manifest; without a name that of the newest.

        Raises:
            UserError: there is no such backup, or its manifest is damaged.
        """
        known = self.names()
        if not known:
            raise UserError(f"{self.place}: holds no backup; dragoman backup {self.place} makes one")
        name = name or list(known)[-1]
        if name not in known:
            raise UserError(f"{self.place}: has no backup {name}; dragoman backup {self.place} list shows them")
        content = self._read(f"backups/{name}.json")
        if content is None or hashlib.sha256(content).hexdigest() != known[name]:
            raise UserError(f"{self.place}/backups/{name}.json: is {'missing' if content is None else 'damaged'}")
        found: dict[str, Any] = json.loads(content)
        return found

    def newest(self) -> dict[str, Any] | None:
        """Returns the newest manifest; None if there is none, or it is damaged."""
        try:
            return self.manifest() if self.names() else None
        except UserError as problem:
            logger.warning("%s; the new backup copies everything", problem)
            return None

    def enter(self, manifest: dict[str, Any]) -> None:
        """Completes a backup, whose objects are written."""
        content = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
        self._write(f"backups/{manifest['name']}.json", content)
        self._index({**self.names(), manifest["name"]: hashlib.sha256(content).hexdigest()})

    def prune(self, keep: int) -> int:
        """Deletes the backups before the newest `keep`, with the objects that no other has; returns their number.

        A damaged manifest keeps all objects: they may be its.
        """
        known = self.names()
        old = list(known)[:-keep]
        if not old:
            return 0
        try:
            gone = {one["sha256"] for name in old for one in objects(self.manifest(name))}
            used = {one["sha256"] for name in list(known)[-keep:] for one in objects(self.manifest(name))}
        except UserError as problem:
            logger.warning("%s; no old backup was deleted", problem)
            return 0
        self._index({name: sha256 for name, sha256 in known.items() if name not in old})
        for name in [*(_name(sha256) for sha256 in gone - used), *(f"backups/{name}.json" for name in old)]:
            self._delete(name)
        return len(old)

    def _index(self, known: dict[str, str]) -> None:
        backups = [{"name": name, "sha256": sha256} for name, sha256 in known.items()]
        self._write(INDEX, json.dumps({"format_version": FORMAT, "backups": backups}, indent=1).encode())

    def _read(self, name: str) -> bytes | None:
        with contextlib.suppress(NotThereError, FileNotFoundError):
            if self.folder is None:
                return remote.read(join(self.place, name), self.patience)
            return (self.folder / name).read_bytes()
        return None

    def _write(self, name: str, content: bytes) -> None:
        if self.folder is None:
            remote.write(join(self.place, name), content, self.patience)
            return
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.folder / name, content)

    def _delete(self, name: str) -> None:
        if self.folder is None:
            remote.delete(join(self.place, name), self.patience)
        else:
            (self.folder / name).unlink(missing_ok=True)


def objects(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields all entries of a manifest that name an object: `path`, `size` and `sha256` among others."""
    yield from manifest["databases"].values()
    for entries in (manifest["files"], *manifest["buckets"].values()):
        yield from entries


def _name(sha256: str) -> str:
    return f"objects/{sha256[:2]}/{sha256}"
