"""Checks a shard directory against its manifest. Reads every byte: at each call, or once and then remembered."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write, file_identity, file_sha256
from dragoman.model.plural import plural
from dragoman.model.shards.layout import checked_name
from dragoman.model.shards.manifest import Manifest, read_manifest
from dragoman.model.storage.mirror import remote_of

AT_ONCE = 4  # files hashed in parallel
logger = logging.getLogger(__name__)


def listed_files(manifest: Manifest) -> dict[str, str]:
    """Returns file name -> sha256 of all files of the directory: shards, tokenizers, held-out texts."""
    files = {entry.name: entry.sha256 for split in manifest.splits.values() for entry in split.shards}
    files.update({entry["file"]: entry["sha256"] for entry in manifest.tokenizer["files"]})
    files.update({text["file"]: text["sha256"] for texts in manifest.texts.values() for text in texts.values()})
    if manifest.training_texts:
        files[manifest.training_texts["file"]] = manifest.training_texts["sha256"]
    return files


def shard_files(manifest: Manifest) -> dict[str, tuple[int, str]]:
    """Returns name -> (bytes, sha256) of all shards."""
    return {entry.name: (entry.bytes, entry.sha256) for split in manifest.splits.values() for entry in split.shards}


def verify(directory: Path) -> int:
    """Checks the sha256 of all files that the manifest names; returns their number."""
    manifest = read_manifest(directory)
    files = listed_files(manifest)
    elsewhere = remote_of(directory)
    paths = _paths(directory, files if elsewhere is None else files.keys() - shard_files(manifest).keys())
    if elsewhere is not None:
        paths |= {name: elsewhere.fetch(name, *facts) for name, facts in shard_files(manifest).items()}
    _compare(paths, files)
    return len(files)


def verify_once(directory: Path, memory: Path) -> int:
    """Runs `verify`, but skips files whose sha256, size, time and inode are noted in the folder `memory`.

    Returns the number of files that were read. Any number of processes may share the folder.
    """
    directory = directory.absolute()
    note = memory / f"{hashlib.sha256(str(directory).encode()).hexdigest()[:16]}.json"
    files = listed_files(read_manifest(directory))
    paths = _paths(directory, files)
    facts = {name: [files[name], *file_identity(path)] for name, path in paths.items()}  # before the files are read
    noted = _read_note(note)
    new = {name: path for name, path in paths.items() if noted.get(name) != facts[name]}
    if new:
        size = sum(path.stat().st_size for path in new.values())
        logger.info(
            f"checking {plural(len(new), 'file')} of {directory} against their sha256 ({size / 1e6:,.1f} MB), once"
        )
        _compare(new, files)
        memory.mkdir(parents=True, exist_ok=True)
        atomic_write(note, json.dumps({"directory": str(directory), "files": facts}, indent=1))
    return len(new)


def _paths(directory: Path, names: Iterable[str]) -> dict[str, Path]:
    """Returns name -> path of each; all are files of the directory itself."""
    paths = {name: checked_name(directory, name) for name in sorted(names)}
    for path in paths.values():
        if not path.is_file():
            raise UserError(f"{path}: the manifest names this file, but it is missing")
    return paths


def _compare(paths: Mapping[str, Path], expected: Mapping[str, str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (name, path), actual in zip(paths.items(), pool.map(file_sha256, paths.values()), strict=True):
            if actual != expected[name]:
                raise UserError(f"{path}: its sha256 is not the one in the manifest; the file was changed")


def _read_note(note: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(note.read_bytes())["files"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # missing or damaged: read everything again
        return {}
