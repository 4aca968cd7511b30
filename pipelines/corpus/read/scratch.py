"""The folder of a sharding's intermediate files, each written atomically."""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write, exclusive, remove_parts
from dragoman.model.names import TRAINING

LAYOUT = 6  # version of the folder's files; those of another version are not resumed
FOLDER = ".work"  # inside the shard directory, until the manifest exists

# The files that a sharding leaves in its directory; nothing else there is ever touched.
_OURS = re.compile(
    r"manifest\.json|(train|valid|test|gate)-\d{6}\.(tar|json)|(train|valid|test|gate)\.[\w-]+\.txt(\.zst)?"
    rf"|(tokenizer|source|target)\.(model|json)|{re.escape(TRAINING)}|\.part-.*"
)


def write_json(path: Path, values: object) -> None:
    """Writes `values` as canonical JSON, atomically."""
    atomic_write(path, json.dumps(values, sort_keys=True, ensure_ascii=False) + "\n", durable=False)


def read_json(path: Path) -> Any:
    """Reads the file of `write_json`; None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def claim_directory(directory: Path) -> Iterator[None]:
    """Makes the shard directory if needed, and locks it against a second `shard` during the block."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        foreign = [path.name for path in directory.iterdir() if path.name != FOLDER and not _OURS.fullmatch(path.name)]
    except (FileExistsError, NotADirectoryError, PermissionError) as problem:
        raise UserError(f"paths.shards={directory}: cannot be used as a folder ({problem.strerror})") from problem
    if foreign:
        raise UserError(f"paths.shards={directory}: holds files that are not shards ({min(foreign)}); give another")
    with exclusive(directory) as held:
        if not held:
            raise UserError(f"paths.shards={directory}: another shard command is at work there")
        yield


def open_scratch(directory: Path, config_hash: str) -> str:
    """Makes the scratch folder of this configuration; returns its state: "new", "continued" or "replaced".

    Deletes the files of another configuration or corpus, so that the two never mix.
    """
    scratch = directory / FOLDER
    marker, wanted_hash = scratch / "made-for.json", f"{config_hash}.{LAYOUT}"
    if read_json(marker) == wanted_hash:
        remove_parts(directory)
        return "continued"
    state = "replaced" if scratch.exists() or (directory / "manifest.json").exists() else "new"
    clear(directory)
    scratch.mkdir()
    write_json(marker, wanted_hash)
    return state


def clear_scratch(directory: Path) -> None:
    """Deletes the scratch folder once the manifest exists."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)


def clear(directory: Path) -> None:
    """Deletes everything that a sharding wrote into `directory`, the manifest first, so that no half looks complete."""
    (directory / "manifest.json").unlink(missing_ok=True)
    clear_scratch(directory)
    for path in sorted(directory.iterdir()):
        if _OURS.fullmatch(path.name) and path.is_file():
            path.unlink()
