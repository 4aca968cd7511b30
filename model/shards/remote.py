"""A shard directory at an address: downloads the files that its manifest names, and publishes the manifest last.

Publishing only creates the manifest, so that a remote directory is complete or absent."""

import json
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write, file_identity
from dragoman.model.plural import plural
from dragoman.model.shards.layout import checked_name
from dragoman.model.storage import remote, transfers
from dragoman.model.storage.mirror import remote_of
from dragoman.model.storage.retry import ExistsError

AT_ONCE = 4  # parallel uploads
SENT = "sent.json"  # in the scratch folder: the files that an earlier start has published
logger = logging.getLogger(__name__)


@lru_cache(maxsize=64)
def bring_directory(directory: Path, manifest: str) -> None:
    """Fetches `manifest` and the small files of a remote directory, once per process: tokenizers, held-out texts."""
    if remote_of(directory) is None:
        return
    transfers.bring(directory / manifest)
    try:
        values = json.loads((directory / manifest).read_bytes())
        small = [*values["tokenizer"]["files"]]
        small += [text for split, texts in values["texts"].items() if split != "train" for text in texts.values()]
        small += [texts_file] if (texts_file := values.get("training_texts")) else []
        files = {str(entry["file"]): str(entry["sha256"]) for entry in small}
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # none, or not ours: its reader reports it
        return
    for name, sha256 in files.items():
        transfers.bring_checked(checked_name(directory, name), None, sha256)


def publish(directory: Path, manifest: str, shards: Mapping[str, tuple[int, str]], scratch: Path) -> None:
    """Copies a finished directory to its address, if it stands for one.

    Args:
        shards: name -> (bytes, sha256); after the upload the cache owns them.

    Raises RefusedError, AwayError: running the command again sends the rest.
    """
    elsewhere = remote_of(directory)
    if elsewhere is None:
        return
    note = scratch / SENT
    sent: dict[str, Any] = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    waiting = [path for path in _files_of(directory, manifest) if sent.get(path.name) != file_identity(path)]
    size = sum(path.stat().st_size for path in waiting)
    logger.info(f"publishing {plural(len(waiting), 'file')} ({size / 1e6:,.1f} MB) at {elsewhere.address}")

    def send(path: Path) -> tuple[str, list[int]]:
        facts = file_identity(path)
        remote.upload(path, elsewhere.at(path.name))
        return path.name, facts

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, facts in pool.map(send, waiting):
            sent[name] = facts
            atomic_write(note, json.dumps(sent), durable=False)
    try:
        remote.create(elsewhere.at(manifest), (directory / manifest).read_bytes())
    except ExistsError:
        raise UserError(f"paths.shards={elsewhere.address}: another command has published other shards there") from None
    for name, (bytes_, sha256) in shards.items():
        if (directory / name).exists():  # missing on nodes that did not make and send it
            elsewhere.cache.adopt(directory / name, bytes_, sha256)


def _files_of(directory: Path, manifest: str) -> Iterator[Path]:
    return (p for p in sorted(directory.iterdir()) if p.is_file() and p.name != manifest and p.name[0] != ".")
