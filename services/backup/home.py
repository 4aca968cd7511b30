"""The files of a home: which of them a backup has, and how a file that others write is copied."""

import contextlib
import hashlib
import logging
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from dragoman.model.errors import UserError
from dragoman.model.files import PART
from dragoman.services.store.copying import HEADER

OF_A_START = {f"service/{name}" for name in ("address.json", "children.json", "lock")}  # written by each `up`
LOGS = ("-wal", "-shm", "-journal")  # of a sqlite database, whose copy has what is in them
IGNORED = {"lost+found"}  # of a file system
BLOCK = 1 << 20
logger = logging.getLogger(__name__)


def files(home: Path, leave: Collection[Path]) -> Iterator[Path]:
    """Yields the regular files of a home that a backup has, in order; `leave` are files and folders to leave out."""
    links = 0
    for folder, folders, names in os.walk(home):
        inside = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if inside / name not in leave and not name.startswith(PART) and not (inside == home and name in IGNORED)
        )
        for name in sorted(names):
            path = inside / name
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if stat.S_ISLNK(mode):
                links += 1
            elif (
                stat.S_ISREG(mode)
                and path not in leave
                and not name.startswith(PART)
                and path.relative_to(home).as_posix() not in OF_A_START
                and not (name.endswith(LOGS) and path.with_name(name.rpartition("-")[0]).is_file())
            ):
                yield path
    if links:
        logger.warning("%s: %d symbolic links are left out; what they lead to is not in the backup", home, links)


def is_database(path: Path) -> bool:
    """Returns True if the file is a sqlite database."""
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER


def hash_as_is(path: Path, target: Path | None = None) -> tuple[int, str]:
    """Returns size and sha256 of a file as long as it is now, and copies it; what is added meanwhile is left out."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as source, target.open("wb") if target else contextlib.nullcontext() as copy:
        rest = os.fstat(source.fileno()).st_size
        while rest and (block := source.read(min(BLOCK, rest))):
            digest.update(block)
            size, rest = size + len(block), rest - len(block)
            if copy is not None:
                copy.write(block)
        if copy is not None:
            copy.flush()
            os.fsync(copy.fileno())
    return size, digest.hexdigest()


def check_path(name: str) -> None:
    """Raises UserError if a path in a backup leads out of the home."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        raise UserError(f"the backup names the file {name!r}, which would lie outside of the home")
