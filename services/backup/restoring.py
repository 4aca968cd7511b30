"""Restores a backup: everything is read and checked before anything takes its place in the empty home."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

from dragoman.model.errors import UserError
from dragoman.model.files import PART
from dragoman.model.storage import remote
from dragoman.model.storage.places import join
from dragoman.model.storage.retry import Patience
from dragoman.services.backup.archive import FORMAT, Archive, objects
from dragoman.services.backup.databases import Kept, databases
from dragoman.services.backup.home import IGNORED, check_path
from dragoman.services.backup.settings import BackupConfig

AT_ONCE = 8  # files
SHOWN = 5  # damaged files in a message
LAST = "service"  # of a home, moved in last: a job service finds all of its files or no ledger


def check(config: BackupConfig, place: str, name: str | None = None) -> dict[str, Any]:
    """Reads every object of a backup and returns its manifest.

    Raises:
        UserError: there is no such backup, or a file of it is missing or damaged; names the file.
    """
    archive = Archive(place, Patience(config.patience))
    manifest = _manifest(archive, name)
    with ThreadPoolExecutor(AT_ONCE, "backup") as pool:
        sound = pool.map(lambda one: archive.check(one["size"], one["sha256"]), objects(manifest))
        _refuse_damaged(place, manifest, list(sound))
    return manifest


def restore(config: BackupConfig, place: str, name: str | None = None) -> dict[str, Any]:
    """Restores the backup `name`, or the newest, into the places that `config` names; returns its manifest.

    Raises:
        UserError: there is no such backup; it is damaged, or of a newer version; a place holds something already.
        ServiceError: a database or an address does not answer.
    """
    archive = Archive(place, Patience(config.patience))
    manifest = _manifest(archive, name)
    kept = [one for one in databases(config) if one.name in manifest["databases"]]
    home = Path(config.home).absolute()
    for one in kept:
        one.check_version(manifest["databases"][one.name]["revision"], manifest["version"])
    _check_empty(home, kept, config, manifest)
    mask = os.umask(0o077)
    stage = home / f"{PART}restore-{uuid4().hex[:8]}"
    try:
        (stage / "home").mkdir(parents=True)
        _stage(archive, manifest, stage)
        for one in kept:
            one.prepare(stage / one.name, manifest["home"], str(home))
        for address, entries in manifest["buckets"].items():
            _fill_bucket(archive, address, entries, stage, Patience(config.patience))
        for one in kept:
            _place(one, stage, home)
        for entry in sorted((stage / "home").iterdir(), key=lambda path: (path.name == LAST, path.name)):
            entry.rename(home / entry.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        os.umask(mask)
    return manifest


def _manifest(archive: Archive, name: str | None) -> dict[str, Any]:
    manifest = archive.manifest(name)
    if manifest["format_version"] != FORMAT:
        raise UserError(
            f"{archive.place}: {manifest['name']} has format {manifest['format_version']}, made by Dragoman "
            f"{manifest['version']}; this version reads {FORMAT}"
        )
    for one in manifest["files"]:
        check_path(one["path"])
    return manifest


def _check_empty(home: Path, kept: list[Kept], config: BackupConfig, manifest: dict[str, Any]) -> None:
    if home.is_dir() and (there := sorted(path.name for path in home.iterdir() if path.name not in IGNORED)):
        raise UserError(f"paths.root={config.home}: is not empty ({there[0]}); name an empty or a new folder")
    for one in kept:
        if one.filled():
            where = f"{one.file} exists" if not one.server else "the database has tables"
            raise UserError(f"{one.setting}: {where}; a restore wants an empty one")
    for address in manifest["buckets"]:
        if there := remote.names(address, Patience(config.patience)):
            raise UserError(f"{address}: holds {there[0]}; a restore wants it empty")


def _stage(archive: Archive, manifest: dict[str, Any], stage: Path) -> None:
    """Writes databases and files to the folder `stage`; checks the buckets' objects."""
    targets = [(one, stage / name) for name, one in manifest["databases"].items()]
    targets += [(one, stage / "home" / one["path"]) for one in manifest["files"]]
    for folder in {target.parent for _, target in targets}:
        folder.mkdir(parents=True, exist_ok=True)

    def write(one: dict[str, Any], target: Path) -> bool:
        if not archive.get(one["size"], one["sha256"], target):
            return False
        if "changed" in one:
            os.utime(target, ns=(one["changed"], one["changed"]))
        return True

    in_buckets = [one for entries in manifest["buckets"].values() for one in entries]
    with ThreadPoolExecutor(AT_ONCE, "restore") as pool:
        sound = list(pool.map(lambda pair: write(*pair), targets))
        sound += pool.map(lambda one: archive.check(one["size"], one["sha256"]), in_buckets)
    _refuse_damaged(archive.place, manifest, sound)


def _refuse_damaged(place: str, manifest: dict[str, Any], sound: list[bool]) -> None:
    """Raises UserError if not all objects of the manifest, in its order, are sound."""
    names = [*manifest["databases"], *(one["path"] for one in manifest["files"])]
    names += [join(address, one["path"]) for address, some in manifest["buckets"].items() for one in some]
    damaged = [name for name, fine in zip(names, sound, strict=True) if not fine]
    if damaged:
        more = f" and {len(damaged) - SHOWN} more" if len(damaged) > SHOWN else ""
        raise UserError(
            f"{place}: {manifest['name']} is damaged; missing or changed: {', '.join(damaged[:SHOWN])}{more}. "
            f"dragoman backup {place} list shows the others"
        )


def _fill_bucket(
    archive: Archive, address: str, entries: list[dict[str, Any]], stage: Path, patience: Patience
) -> None:
    def upload(one: dict[str, Any]) -> None:
        part = stage / uuid4().hex
        if not archive.get(one["size"], one["sha256"], part):
            raise UserError(f"{archive.place}: {join(address, one['path'])} is damaged")
        remote.upload(part, join(address, one["path"]), patience)
        part.unlink()

    with ThreadPoolExecutor(AT_ONCE, "restore") as pool:
        list(pool.map(upload, entries))


def _place(one: Kept, stage: Path, home: Path) -> None:
    """Puts a database in its place: a server, a file of the home, or one elsewhere."""
    copy = stage / one.name
    if one.server:
        one.fill(copy)
        return
    inside = one.file.is_relative_to(home)
    target = stage / "home" / one.file.relative_to(home) if inside else one.file
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(copy, target)
