"""Restores a backup: everything is read and checked before anything takes its place in the empty home."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from dragoman.model.errors import UserError
from dragoman.model.storage import remote
from dragoman.model.storage.places import join
from dragoman.model.storage.retry import Patience
from dragoman.services.backup.copies import FORMAT, OLD_FORMAT, Copy, Entry, Place, files_of
from dragoman.services.backup.databases import Kept, databases
from dragoman.services.backup.making import IGNORED, check_path
from dragoman.services.backup.settings import BackupConfig
from dragoman.services.jobs.ledger.database import STAGE, check_whole

AT_ONCE = 8  # files
SHOWN = 5  # damaged files in a message
LAST = "service"  # of a home, moved in last: a job service finds all of its files or no ledger


def check(config: BackupConfig, place: str, name: str | None = None) -> Entry:
    """Reads every file of a backup and returns its manifest.

    Raises UserError: there is no such backup, or a file of it is missing or damaged; names the file.
    """
    copy = Copy(place, Patience(config.patience))
    manifest = _manifest(copy, name)
    _check_files(copy, manifest, list(files_of(manifest)))
    return manifest


def restore(config: BackupConfig, place: str, name: str | None = None) -> Entry:
    """Restores the backup `name`, or the newest, into the places that `config` names; returns its manifest.

    Raises:
        UserError: there is no such backup; it is damaged, or of a newer version; a place holds something already.
        ServiceError: a database or an address does not answer.
    """
    copy = Copy(place, Patience(config.patience))
    manifest = _manifest(copy, name)
    kept = [database for database in databases(config) if database.name in manifest["databases"]]
    home = Path(config.home).absolute()
    for database in kept:
        database.check_version(manifest["databases"][database.name]["revision"], manifest["version"])
    _check_empty(home, kept, config, manifest)
    mask = os.umask(0o077)
    stage = home / STAGE
    try:
        (stage / "home").mkdir(parents=True)
        _stage(copy, manifest, stage)
        for database in kept:
            database.prepare(stage / database.name, manifest["home"], str(home))
        for address in manifest["buckets"]:
            objects = [
                entry for entry in files_of(manifest) if not entry.target and entry.shown.startswith(join(address, ""))
            ]
            _fill_bucket(copy, address, objects, stage)
        for database in kept:
            _place(database, stage, home)
        for entry in sorted((stage / "home").iterdir(), key=lambda path: (path.name == LAST, path.name)):
            entry.rename(home / entry.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        os.umask(mask)
    return manifest


def _manifest(copy: Copy, name: str | None) -> Entry:
    manifest = copy.manifest(name)
    if manifest["format_version"] not in (FORMAT, OLD_FORMAT):
        raise UserError(
            f"{copy.place}: {manifest['name']} has format {manifest['format_version']}, made by Dragoman "
            f"{manifest['version']}; this version reads {OLD_FORMAT} and {FORMAT}"
        )
    for file in manifest["files"]:
        check_path(file["path"])
    return manifest


def _check_empty(home: Path, kept: list[Kept], config: BackupConfig, manifest: Entry) -> None:
    check_whole(home)
    if home.is_dir() and (there := sorted(path.name for path in home.iterdir() if path.name not in IGNORED)):
        raise UserError(f"paths.root={config.home}: is not empty ({there[0]}); name an empty or a new folder")
    for database in kept:
        if database.filled():
            where = f"{database.file} exists" if not database.server else "the database has tables"
            raise UserError(f"{database.setting}: {where}; a restore wants an empty one")
    for address in manifest["buckets"]:
        if there := remote.names(address, Patience(config.patience)):
            raise UserError(f"{address}: holds {there[0]}; a restore wants it empty")


def _stage(copy: Copy, manifest: Entry, stage: Path) -> None:
    """Writes databases and files to the folder `stage`; checks the buckets' objects."""
    targets = [entry for entry in files_of(manifest) if entry.target]
    for folder in {(stage / entry.target).parent for entry in targets}:
        folder.mkdir(parents=True, exist_ok=True)

    def write(entry: Place) -> bool:
        target = stage / entry.target
        if not copy.get(entry.name, entry.entry["size"], entry.entry["sha256"], target):
            return False
        if "changed" in entry.entry:
            os.utime(target, ns=(entry.entry["changed"], entry.entry["changed"]))
        return True

    with ThreadPoolExecutor(AT_ONCE, "restore") as pool:
        sound = list(pool.map(write, targets))
    _refuse_damaged(copy, manifest, targets, sound)
    _check_files(copy, manifest, [entry for entry in files_of(manifest) if not entry.target])


def _check_files(copy: Copy, manifest: Entry, places: list[Place]) -> None:
    with ThreadPoolExecutor(AT_ONCE, "backup") as pool:
        sound = pool.map(lambda entry: copy.check(entry.name, entry.entry["size"], entry.entry["sha256"]), places)
        _refuse_damaged(copy, manifest, places, list(sound))


def _refuse_damaged(copy: Copy, manifest: Entry, places: list[Place], sound: list[bool]) -> None:
    """Raises UserError if not all files are sound."""
    damaged = [entry.shown for entry, fine in zip(places, sound, strict=True) if not fine]
    if damaged:
        more = f" and {len(damaged) - SHOWN} more" if len(damaged) > SHOWN else ""
        raise UserError(
            f"{copy.place}: {manifest['name']} is damaged; missing or changed: {', '.join(damaged[:SHOWN])}{more}. "
            f"While the home is there: dragoman backup {copy.place}; else restore an earlier copy of the folder"
        )


def _fill_bucket(copy: Copy, address: str, places: list[Place], stage: Path) -> None:
    def upload(entry: Place) -> None:
        part = stage / uuid4().hex
        if not copy.get(entry.name, entry.entry["size"], entry.entry["sha256"], part):
            raise UserError(f"{copy.place}: {entry.shown} is damaged")
        remote.upload(part, join(address, entry.entry["path"]), copy.patience)
        part.unlink()

    with ThreadPoolExecutor(AT_ONCE, "restore") as pool:
        list(pool.map(upload, places))


def _place(database: Kept, stage: Path, home: Path) -> None:
    """Puts a database in its place: a server, a file of the home, or one elsewhere."""
    copy = stage / database.name
    if database.server:
        database.fill(copy)
        return
    inside = database.file.is_relative_to(home)
    target = stage / "home" / database.file.relative_to(home) if inside else database.file
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(copy, target)
