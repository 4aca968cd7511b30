"""The folder of what a sharding has worked out so far. Everything in it is whole or not there at all."""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from model.errors import UserError
from model.files import atomic_write, exclusive, remove_parts

LAYOUT = 3  # of the files in the folder: another program's half-made ones are not gone on with
FOLDER = ".work"  # inside the shard directory, gone when the manifest stands

# What a sharding leaves in its directory; nothing else there is ever touched.
_OURS = re.compile(
    r"manifest\.json|(train|valid|test|gate)-\d{6}\.(tar|json)|(train|valid|test|gate)\.[\w-]+\.txt(\.zst)?"
    r"|(tokenizer|source|target)\.(model|json)|\.part-.*|.*\.(part|tmp)"
)


def write_json(path: Path, values: object) -> None:
    """`values` as canonical JSON, whole or not at all."""
    atomic_write(path, json.dumps(values, sort_keys=True, ensure_ascii=False) + "\n", durable=False)


def read_json(path: Path) -> Any:
    """What `write_json` wrote; None where it did not."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def claim_directory(directory: Path) -> Iterator[None]:
    """The shard directory, made where it is missing and held against a second `shard` for the length of the block.

    Raises:
        UserError: it cannot be made, holds files that are not ours, or another process shards into it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        foreign = [path.name for path in directory.iterdir() if path.name != FOLDER and not _OURS.fullmatch(path.name)]
    except (FileExistsError, NotADirectoryError, PermissionError) as problem:
        raise UserError(f"paths.shards={directory}: cannot be used as a folder ({problem.strerror})") from problem
    if foreign:
        raise UserError(f"paths.shards={directory}: holds files that are no shards ({min(foreign)}); give another")
    with exclusive(directory) as held:
        if not held:
            raise UserError(f"paths.shards={directory}: another shard command is at work there")
        yield


def open_scratch(directory: Path, config_hash: str) -> tuple[Path, str]:
    """The scratch folder of this very configuration and what was found: "new", "continued" or "replaced".

    What another configuration or another corpus left is wiped: the two are never mixed.
    """
    scratch = directory / FOLDER
    marker, wanted = scratch / "made-for.json", f"{config_hash}.{LAYOUT}"
    if read_json(marker) == wanted:
        remove_parts(directory)
        return scratch, "continued"
    found = "replaced" if scratch.exists() or (directory / "manifest.json").exists() else "new"
    clear(directory)
    scratch.mkdir()
    write_json(marker, wanted)
    return scratch, found


def clear_scratch(directory: Path) -> None:
    """The end: the manifest stands and the scratch folder goes."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)


def clear(directory: Path) -> None:
    """Take out everything a sharding wrote into `directory`, the manifest first, so that no half of it looks whole."""
    (directory / "manifest.json").unlink(missing_ok=True)
    clear_scratch(directory)
    for path in sorted(directory.iterdir()):
        if _OURS.fullmatch(path.name) and path.is_file():
            path.unlink()
