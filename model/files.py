"""Atomic files and folders, their hashes, and locks that the system releases when their holder ends."""

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

from dragoman.model.errors import UserError

SOCKET_PATH = 107  # longest path of a Unix socket on Linux, in bytes
BELOW = 76  # bytes of such a path after the prefix: random letters, r/session_DATE_TIME_PID/sockets/plasma_store of Ray
PART = ".part-"  # prefix of a file that is still being written


@contextlib.contextmanager
def atomic_path(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yields a name beside `path`, with its suffix, to write to. The file becomes `path` when the block ends well.

    Readers always see the whole old file or the whole new one, even if this process dies; `durable`: even after a power
    cut. A block that fails leaves no file. Its mode is that of a new file here: safetensors writes for its owner alone.
    """
    part = path.with_name(f"{PART}{os.uname().nodename}-{os.getpid()}-{threading.get_ident()}-{path.name}")
    part.touch()
    mode = part.stat().st_mode
    try:
        yield part
        part.chmod(mode)
        if durable:
            synchronise(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if durable:
        synchronise(path.parent)


@contextlib.contextmanager
def atomic_open(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """Yields such a file, binary and open for writing."""
    with atomic_path(path, durable) as part, part.open("wb") as file:
        yield file


@contextlib.contextmanager
def atomic_text(path: Path) -> Iterator[TextIO]:
    """Like `atomic_open`, for a file of UTF-8 whose lines end in line feeds."""
    with atomic_open(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as file:
        yield file


def atomic_write(path: Path, content: bytes | str, durable: bool = True) -> None:
    """Writes `content` to `path`, text as UTF-8."""
    with atomic_path(path, durable) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def secret_file(path: Path, new: str) -> str:
    """Returns the secret in a file that only this user can read; where it is missing or empty, `new` is written first.

    It is whole from its first moment: an empty one, left by a killed process, would be everybody's secret.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(path.with_name(f".{path.name}.making"), wait=True):
        if not path.is_file() or not path.stat().st_size:
            descriptor, part = tempfile.mkstemp(prefix=f".part-{path.name}-", dir=path.parent)  # for this user alone
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(new)
            Path(part).replace(path)
    return path.read_text(encoding="utf-8").strip()


@contextlib.contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """Yields a temporary directory beside `directory` to write into. It takes that name when the block ends well.

    An older directory is replaced as a whole, and kept if the block fails. Files get the mode of a new file, as above.
    """
    directory = directory.absolute()
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = directory.parent / f".{directory.name}.{secrets.token_hex(8)}"
    work.mkdir()  # not mkdtemp, which ignores the umask
    mode = work.stat().st_mode & 0o666
    try:
        yield work
        for folder, _, names in os.walk(work):
            for name in names:
                (Path(folder) / name).chmod(mode)
            for name in [*names, "."]:
                synchronise(Path(folder) / name)
        _replace_directory(work, directory)
        synchronise(directory.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _replace_directory(new: Path, directory: Path) -> None:
    """Renames `new` to `directory`. Moves an old one aside first and removes it last, so no half directory appears."""
    if not directory.exists():
        new.rename(directory)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
    directory.rename(aside / "old")
    new.rename(directory)
    shutil.rmtree(aside)


def socket_folder(prefix: str) -> Path:
    """Makes a folder with a random name that only this user can enter, its path short enough for sockets.

    Uses the system's temporary folder, or /tmp if that path is too long.
    """
    place = tempfile.gettempdir()
    if len(os.fsencode(place)) + len(prefix) + BELOW > SOCKET_PATH:
        place = "/tmp"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=place))  # mode 0700


def remove_parts(directory: Path) -> None:
    """Deletes temporary files that killed writers left below `directory`. Call it only when nobody writes there."""
    for path in directory.rglob(f"{PART}*"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(path: Path, wait: bool = False) -> Iterator[bool]:
    """Locks the folder or lock file `path` (made if missing), and yields True if this process got the lock.

    The system releases the lock when its holder ends, for whatever reason. `wait`: wait for another holder to finish.

    Raises OSError: it cannot be opened, or the file system has no locks.
    """
    from filelock import lock_descriptor  # takes 40 ms, and few commands lock anything

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield lock_descriptor(descriptor, blocking=wait)
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Returns True if a process holds the lock file `path`, alone or with others; makes no file."""
    from filelock import lock_descriptor  # as above

    with contextlib.suppress(OSError):  # no such file, or no permission
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return not lock_descriptor(descriptor, blocking=False)
        finally:
            os.close(descriptor)
    return False


def synchronise(path: Path) -> None:
    """Flushes a file's content, or the names in a directory, to disk, so that they survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot sync a directory
            raise
    finally:
        os.close(descriptor)


def file_identity(path: Path) -> list[int]:
    """Returns size, time of the last change in nanoseconds, and inode."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def file_sha256(path: Path) -> str:
    """Returns the sha256 (hex) of a file on disk."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_secret(key: str, path: str) -> str:
    """Returns the content of a file without the line end."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"{key}: {path} cannot be read ({problem})") from None
    if not text:
        raise UserError(f"{key}: {path} holds nothing")
    return text
