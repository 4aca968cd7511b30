"""The shard folders of a service: those below HOME/shards that a user may see, and what their manifests say.

A name from a request is resolved first and checked then: it must be a folder below HOME/shards, with every link
followed, that no other owner's job has written.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from fastapi import HTTPException
from sqlalchemy import func, select

from dragoman.model.errors import UserError, reason
from dragoman.model.shards.manifest import MANIFEST, Manifest, manifest_hash, read_manifest
from dragoman.model.untrusted import open_regular
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.places import Places
from dragoman.services.jobs.ledger.tables import Job

MOST = 2000  # folders that are listed
KEPT = 2 * MOST  # summaries in memory
LARGEST = 64 << 20  # bytes of a manifest that is read or hashed
MADE = "shards "  # a shard job's `run` is this and the real path of what it writes


@dataclass(frozen=True)
class Summary:
    """The facts that a list of shards shows."""

    digest: str  # sha256 of the manifest
    corpus: str
    languages: Sequence[str]
    kind: str
    tokenizer: str
    vocabularies: Sequence[int]  # one for each tokenizer
    records: dict[str, int]  # split -> records
    tokens: int
    bytes: int  # of the tars
    dropped: int  # training records that a rule dropped


@dataclass(frozen=True)
class Folder:
    """A shard folder. Without a summary, `problem` says why; it is empty while the folder has no manifest."""

    name: str  # below HOME/shards
    path: Path  # every link followed
    made: float  # seconds since 1970
    summary: Summary | None = None
    problem: str = ""


class ShardFolders:
    """The shard folders below a service's home."""

    def __init__(self, places: Places, home: Path) -> None:
        self.places, self.home = places, home

    @property
    def root(self) -> Path:
        """Returns HOME/shards with every link followed."""
        return (self.home / "shards").resolve()

    def all(self, person: Person) -> list[Folder]:
        """Returns the folders that a user may see, the newest first; `read` gives them their summary."""
        root = self.root
        paths = dict.fromkeys([*_with_manifest(root), *self._written_by_jobs(root)])
        hidden = self.places.hidden(person, list(map(str, paths)))
        folders = [_folder(root, path) for path in paths if str(path) not in hidden]
        return sorted(filter(None, folders), key=lambda folder: -folder.made)

    def read(self, folder: Folder) -> Folder:
        """Returns a folder with the facts of its manifest, or why there are none; reads a changed manifest again."""
        try:
            at = (folder.path / MANIFEST).lstat()
        except OSError:
            return folder
        summary = _summary(folder.path, at.st_mtime_ns, at.st_size, at.st_ino)
        return replace(folder, problem=summary) if isinstance(summary, str) else replace(folder, summary=summary)

    def find(self, person: Person, name: str) -> Folder:
        """Returns a folder by its name. Raises HTTPException (404) if there is none, or it is another owner's."""
        folder = self.at(person, name)
        if folder is None:
            raise HTTPException(404, f"There are no shards {name}, or they are not yours.")
        return self.read(folder)

    def at(self, person: Person, place: str) -> Folder | None:
        """Returns the folder of a name or path; None if it is none below the root, or another owner's."""
        root = self.root
        try:
            path = (root / place).resolve()
        except (OSError, ValueError, RuntimeError):  # no file name, or a link to itself
            return None
        if path == root or not path.is_relative_to(root) or self.places.hidden(person, [str(path)]):
            return None
        return _folder(root, path)

    def _written_by_jobs(self, root: Path) -> Iterator[Path]:
        """Yields the folders that shard jobs write, also before they have a manifest."""
        query = select(Job.run).where(Job.verb == "shard", Job.run.startswith(f"{MADE}{root}/", autoescape=True))
        query = query.group_by(Job.run).order_by(func.max(Job.seq).desc()).limit(MOST)
        with self.places.ledger.database.read() as session:
            for run in session.scalars(query).all():
                yield Path(run.removeprefix(MADE))


def _folder(root: Path, path: Path) -> Folder | None:
    """Returns a folder as old as its manifest, or as itself; None if it is none."""
    try:
        if not path.is_dir() or path.resolve() != path:  # a link in the place of what a job has made
            return None
        manifest = path / MANIFEST
        made = (manifest.lstat() if os.path.lexists(manifest) else path.stat()).st_mtime
    except OSError:
        return None
    return Folder(str(path.relative_to(root)), path, made)


def check_own(path: Path, most: int) -> None:
    """Raises UserError unless `path` is a regular file of at most `most` bytes, and no link."""
    try:
        status = path.lstat()
    except OSError:
        raise UserError(f"{path}: there is no such file") from None
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path}: is a link or no regular file")
    if status.st_size > most:
        raise UserError(f"{path}: has {status.st_size:,} bytes; at most {most:,} are read for a page")


def _with_manifest(root: Path) -> Iterator[Path]:
    """Yields the folders with a manifest, one or two levels below `root`; follows no links."""
    seen = 0
    for first in _folders(root):
        if os.path.lexists(first / MANIFEST):
            yield first
            continue
        for second in _folders(first):
            if (seen := seen + 1) > MOST:
                return
            if os.path.lexists(second / MANIFEST):
                yield second


def _folders(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            inside = [
                entry for entry in entries if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
    except OSError:
        return []
    return [Path(entry.path) for entry in inside[:MOST]]


def manifest_in(folder: Path) -> Manifest:
    """Returns a folder's manifest. Raises UserError if there is none, or it is damaged or too large."""
    path = folder / MANIFEST
    check_own(path, LARGEST)
    try:
        return read_manifest(folder)
    except (OSError, RecursionError, TypeError, AttributeError, KeyError) as problem:
        raise UserError(f"{path}: not a manifest ({reason(problem)})") from None


@lru_cache(maxsize=KEPT)
def _summary(path: Path, *_stamp: int) -> Summary | str:
    """Returns the facts of the manifest as it was at that time, size and inode, or why there are none."""
    try:
        manifest = manifest_in(path)
        digest = manifest_hash(path)
    except UserError as problem:
        return str(problem)
    splits = manifest.splits
    return Summary(
        digest=digest,
        corpus=manifest.corpus,
        languages=manifest.languages,
        kind=manifest.kind,
        tokenizer=str(manifest.tokenizer.get("type", "")),
        vocabularies=[int(file.get("vocabulary", 0)) for file in manifest.tokenizer.get("files", [])],
        records={name: split.records for name, split in splits.items()},
        tokens=sum(split.source_tokens + split.target_tokens for split in splits.values()),
        bytes=sum(entry.bytes for split in splits.values() for entry in split.shards),
        dropped=sum(manifest.dropped.get("train", {}).values()),
    )


def sharding_run(job: Job) -> Path | None:
    """Returns the folder of the run that records a shard job's result; its name ends with the start of the manifest's
    sha256. None if the shards or the record are not made yet or cannot be seen.
    """
    folder = (job.plan or {}).get("run_dir")
    if not folder:
        return None
    digest = manifest_digest(Path(job.run.partition(" ")[2]))
    if digest is None:
        return None
    return next(iter(sorted(Path(folder).parent.glob(f"shard-*-{digest[:12]}"))), None)


def manifest_digest(folder: Path) -> str | None:
    """Returns the sha256 of a shard folder's manifest in hex; None if it cannot be read or is too large."""
    manifest = folder / MANIFEST
    try:
        status = manifest.stat()
        if status.st_size > LARGEST:
            return None
        return _sha256(manifest, status.st_mtime_ns, status.st_size)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _sha256(path: Path, _changed: int, _size: int) -> str:
    """Returns the sha256 of a file as it was at that change, in hex."""
    with open_regular(path) as file:
        return hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
