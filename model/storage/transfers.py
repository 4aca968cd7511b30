"""Fetches and publishes the files of a folder that stands for an address (`mirror.py`)."""

from pathlib import Path

from dragoman.model.files import atomic_path, atomic_write, file_sha256
from dragoman.model.storage import remote
from dragoman.model.storage.mirror import remote_of
from dragoman.model.storage.retry import NotThereError


def bring(path: Path, keep: bool = False) -> None:
    """Updates a small file of a mirror from its address. If there is none, deletes the local one too.

    `keep` keeps it: it may not have been uploaded yet.

    Raises RefusedError, AwayError.
    """
    elsewhere = remote_of(path)
    if elsewhere is None:
        return
    try:
        content = remote.read(elsewhere.address)
    except NotThereError:
        if not keep:
            path.unlink(missing_ok=True)
        return
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, content, durable=False)


def bring_checked(path: Path, size: int | None, sha256: str) -> None:
    """Fetches a file of a mirror that a manifest names, with the given size or the size at its address.

    Raises NotThereError, RefusedError, AwayError.
    """
    elsewhere = remote_of(path)
    if elsewhere is None or (path.is_file() and file_sha256(path) == sha256):
        return
    if size is None:
        size = remote.size(elsewhere.address) or 0
    cached_file = elsewhere.cache.fetch(elsewhere.address, size, sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path, durable=False) as part:
        try:
            part.hardlink_to(cached_file)
        except OSError:  # a file system without them
            part.write_bytes(cached_file.read_bytes())


def publish_files(source: Path) -> None:
    """Uploads a file, or a folder's files, to the address that it stands for; does nothing for an ordinary path.

    A `config.json`, which names the other files, comes last.

    Raises RefusedError, AwayError.
    """
    elsewhere = remote_of(source)
    if elsewhere is None or not source.exists():
        return
    files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: (path.name == "config.json", path)):
        own = remote_of(path)
        if own is not None:
            remote.upload(path, own.address)
