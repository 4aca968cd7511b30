"""Files and folders that are there whole or not at all, their hashes, and locks that die with their holder."""

import contextlib
import errno
import hashlib
import io
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

SOCKET_PATH = 107  # bytes that the path of a Unix socket may have on Linux
BELOW = 76  # bytes of such a path after the prefix: random letters, r/session_DATE_TIME_PID/sockets/plasma_store of Ray
PART = ".part-"  # how the name of a file begins that is still being written


@contextlib.contextmanager
def atomic_path(path: Path, durable: bool = True) -> Iterator[Path]:
    """A name beside `path`, with its suffix, to write a file under; that file becomes `path` when the block ends well.

    So `path` is the old file or the new one, whole, whoever reads it and whenever this process dies; `durable` says
    that a power cut changes nothing of that. A block that fails leaves nothing behind.
    """
    part = path.with_name(f"{PART}{os.uname().nodename}-{os.getpid()}-{threading.get_ident()}-{path.name}")
    try:
        yield part
        if durable:
            synchronise(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if durable:
        synchronise(path.parent)


@contextlib.contextmanager
def atomic_open(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """The same as a binary file, open for writing."""
    with atomic_path(path, durable) as part, part.open("wb") as file:
        yield file


@contextlib.contextmanager
def atomic_text(path: Path, durable: bool = True) -> Iterator[TextIO]:
    """The same as a file of UTF-8 whose lines end in line feeds."""
    with atomic_open(path, durable) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as file:
        yield file


def atomic_write(path: Path, content: bytes | str, durable: bool = True) -> None:
    """Make `path` hold `content`, text as UTF-8."""
    with atomic_path(path, durable) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """A temporary directory beside `directory` to write into; it takes that name when the block ends without error.

    So the directory is there whole or not at all; an older one is replaced, and kept where the block fails.
    """
    directory = directory.absolute()
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = directory.parent / f".{directory.name}.{secrets.token_hex(8)}"
    work.mkdir()  # not mkdtemp, which ignores the umask
    try:
        yield work
        for folder, _, names in os.walk(work):
            for name in [*names, "."]:
                synchronise(Path(folder) / name)
        _replace_directory(work, directory)
        synchronise(directory.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _replace_directory(new: Path, directory: Path) -> None:
    """Rename `new` to `directory`. One that is there is moved aside first and removed last, so never half of one."""
    if not directory.exists():
        new.rename(directory)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
    directory.rename(aside / "old")
    new.rename(directory)
    shutil.rmtree(aside)


def socket_folder(prefix: str) -> Path:
    """A new folder of a random name that only this user can enter, with a path short enough for the sockets in it.

    It is in the system's temporary folder, or in /tmp where the path of that one is too long.
    """
    place = tempfile.gettempdir()
    if len(os.fsencode(place)) + len(prefix) + BELOW > SOCKET_PATH:
        place = "/tmp"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=place))  # mode 0700


def remove_parts(directory: Path) -> None:
    """Delete what killed writers left behind anywhere below `directory`; only while nobody writes there."""
    for pattern in (f"{PART}*", "*.part", "*.tmp"):  # the last two: how earlier versions named them
        for path in directory.rglob(pattern):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(path: Path, wait: bool = False) -> Iterator[bool]:
    """Hold the folder or lock file `path` (made where it is missing) against others, and say whether that came to be.

    The system releases it with its holder, however that ends. `wait`: until another holder is done.

    Raises:
        OSError: it cannot be opened, or the file system knows no locks.
    """
    from filelock import lock_descriptor  # takes 40 ms, and few commands lock anything

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield lock_descriptor(descriptor, blocking=wait)
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path`, alone or with others; nothing is made where there is none."""
    from filelock import lock_descriptor  # as above

    with contextlib.suppress(OSError):  # no such file, or not for our eyes
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return not lock_descriptor(descriptor, blocking=False)
        finally:
            os.close(descriptor)
    return False


def synchronise(path: Path) -> None:
    """Make a file's content, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot sync a directory
            raise
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """sha256 (hex) of a file as it lies on the disk."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
