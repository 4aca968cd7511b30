"""A shard directory that stands for an address: fetched file by file as its manifest names them, published with the
manifest last and created only, so that a directory elsewhere is whole or not there."""

import json
import logging
import mmap
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from model.errors import UserError
from model.files import atomic_write
from model.storage import mirror, remote
from model.storage.retry import ExistsError

AT_ONCE = 4  # files on their way side by side
SENT = "sent.json"  # in the scratch folder: what a start before this one has published
logger = logging.getLogger(__name__)


@lru_cache(maxsize=64)
def bring_directory(directory: Path, manifest: str) -> None:
    """Have the file `manifest` and what is small of a directory elsewhere, once a process: tokenizers, held-out texts.

    Raises:
        UserError: a file that is not the one in the manifest.
        NotThereError, RefusedError, AwayError: as `model.storage.remote`.
    """
    if mirror.remote_of(directory) is None:
        return
    mirror.bring(directory / manifest)
    try:
        values = json.loads((directory / manifest).read_bytes())
        small = [*values["tokenizer"]["files"]]
        small += [text for split, texts in values["texts"].items() if split != "train" for text in texts.values()]
        files = {str(entry["file"]): str(entry["sha256"]) for entry in small}
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # none, or none of ours: whoever reads it says so
        return
    for name, sha256 in files.items():
        mirror.bring_checked(checked_name(directory, name), None, sha256)


def checked_name(directory: Path, name: str) -> Path:
    """The file of that name in the directory itself; UserError where it would lie elsewhere."""
    path = directory / name
    if path.parent != directory or name in ("", ".", ".."):
        raise UserError(f"{path}: the manifest names a file outside of its directory")
    return path


def shard_path(elsewhere: mirror.Remote, name: str, size: int, sha256: str) -> Path:
    """The shard in this machine's cache, fetched where it is not there. Raises as `Cache.fetch`."""
    return elsewhere.cache.fetch(elsewhere.at(name), size, sha256, elsewhere.patience)


def open_shard(elsewhere: mirror.Remote, name: str, size: int, sha256: str) -> mmap.mmap:
    """The same, mapped: it stays for whoever holds it."""
    return elsewhere.cache.open_mapped(elsewhere.at(name), size, sha256, elsewhere.patience)


def publish(directory: Path, manifest: str, shards: Mapping[str, tuple[int, str]], scratch: Path) -> None:
    """Copy a directory that is done here to its address; nothing to do where it has none.

    Args:
        shards: name -> (bytes, sha256); once they are elsewhere they are the cache's.

    Raises:
        UserError: a manifest of other shards was published there meanwhile.
        RefusedError, AwayError: the same command sends the rest.
    """
    elsewhere = mirror.remote_of(directory)
    if elsewhere is None:
        return
    note = scratch / SENT
    sent: dict[str, Any] = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    waiting = [path for path in _files_of(directory, manifest) if sent.get(path.name) != _facts(path)]
    size = sum(path.stat().st_size for path in waiting)
    logger.info(f"publishing {len(waiting):,} files ({size / 1e6:,.1f} MB) at {elsewhere.address}")

    def send(path: Path) -> tuple[str, list[int]]:
        facts = _facts(path)
        remote.upload(path, elsewhere.at(path.name), elsewhere.patience)
        return path.name, facts

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, facts in pool.map(send, waiting):
            sent[name] = facts
            atomic_write(note, json.dumps(sent), durable=False)
    try:
        remote.create(elsewhere.at(manifest), (directory / manifest).read_bytes(), elsewhere.patience)
    except ExistsError:
        raise UserError(f"paths.shards={elsewhere.address}: another command has published other shards there") from None
    for name, (bytes_, sha256) in shards.items():
        if (directory / name).exists():  # not on the node that made and sent it
            elsewhere.cache.adopt(directory / name, bytes_, sha256)


def _files_of(directory: Path, manifest: str) -> Iterator[Path]:
    return (p for p in sorted(directory.iterdir()) if p.is_file() and p.name != manifest and p.name[0] != ".")


def _facts(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]
