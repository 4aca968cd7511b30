"""Tars of other tools, one text or pair per sample, and tars written for them by the `webdataset` library.

The library opens `pipe:` addresses with a shell and decodes pickles, and Python's reader takes a header or a member of
any size into memory. So tars are read here: plain headers, long names of GNU and pax, and members of bounded size.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

from dragoman.model.errors import UserError
from dragoman.model.inputs.streams import Blocks

BLOCK = 512  # bytes
MOST_HEADER, MOST_MEMBER = 1 << 20, 16 << 20  # bytes of a long name or pax header, and of a member that is a text
SKIPPED = 1 << 20  # bytes of an unread member at a time
TEXT = ".txt"  # may stand behind the extension: 0001.en.txt
FILES = (b"0", b"\0", b"7")  # types of a member that is a file
NO_FILES = (b"1", b"2", b"3", b"4", b"5", b"6")  # links, devices, folders, pipes: nothing follows
OWN = "__"  # begins the names of the library's own members


class _DamagedError(Exception):
    """A tar is not whole, or holds what is not read."""


def read_samples(path: Path, extensions: set[str]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yields (key, extension -> bytes) of every sample of a tar that has one of the `extensions`.

    A key is what stands before the extension, dots too. Several tars one after another in a file are read as one.
    """
    key, sample, last = "", dict[str, bytes](), "the beginning"
    with Blocks.of(path) as file:
        try:
            for name, data in _members(file, extensions):
                own, extension = split_name(name, extensions)
                if sample and own != key:
                    last = key
                    yield key, sample
                    sample = {}
                if extension in sample:
                    raise _DamagedError(f"{name}: the sample has it twice")
                key, sample[extension] = own, data
            if sample:
                yield key, sample
        except _DamagedError as problem:
            raise UserError(f"{path}: not a whole tar: broken after {last} ({problem})") from None


def split_name(name: str, extensions: set[str]) -> tuple[str, str]:
    """Returns the key of a member and its extension in lower case; an empty extension if it has none of these."""
    for whole in (name.removesuffix(TEXT), name):
        key, _, extension = whole.rpartition(".")
        if "/" not in extension and extension.lower() in extensions and not key.rpartition("/")[2].startswith(OWN):
            return key, extension.lower()
    return name, ""


def member_names(path: Path, count: int) -> list[str]:
    """Returns the names of the first members of a tar, for messages."""
    names: list[str] = []
    with Blocks.of(path) as file:
        try:
            for name, size in _headers(file):
                names.append(name)
                if len(names) == count:
                    break
                _skip(file, size)
        except _DamagedError:
            pass
    return names


def _members(file: IO[bytes], extensions: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yields name and content of the files with one of the extensions."""
    for name, size in _headers(file):
        if not split_name(name, extensions)[1]:
            _skip(file, size)
            continue
        if size > MOST_MEMBER:
            raise _DamagedError(f"{name}: {size:,} bytes, more than a text of {MOST_MEMBER:,}")
        yield name, _read(file, size)


def _headers(file: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Yields name and size of every file; its content, padded to whole blocks, is to be read before the next one."""
    empty, long = 0, dict[str, str]()
    while header := file.read(BLOCK):
        if not header.strip(b"\0"):
            empty += 1
            continue
        name, size, kind = _fields(header)
        empty = 0
        if kind in (b"x", b"g", b"L", b"K"):
            if size > MOST_HEADER:
                raise _DamagedError(f"a header of {size:,} bytes, more than {MOST_HEADER:,}")
            content = _read(file, size)
            if kind == b"x":
                long |= _pax(content)
            elif kind == b"L":
                long["path"] = content.rstrip(b"\0").decode("utf-8", "replace")
            continue
        name, size = long.get("path", name), int(long.get("size", size))
        if kind == b"S" or any(key.startswith("GNU.sparse") for key in long):
            raise _DamagedError(f"{name} is a sparse file; pack it anew without --sparse")
        long = {}
        if kind in FILES:
            yield name, size
        else:
            _skip(file, 0 if kind in NO_FILES else size)
    if empty < 2:
        raise _DamagedError("cut off: it has no end mark")


def _fields(header: bytes) -> tuple[str, int, bytes]:
    """Returns name, size and type of a header block."""
    try:
        expected = int(header[148:156].strip(b"\0 ") or b"0", 8)
        size = header[124:136]
        length = int.from_bytes(size[1:], "big") if size[:1] == b"\x80" else int(size.strip(b"\0 ") or b"0", 8)
    except ValueError:
        _refuse()
    if len(header) < BLOCK or sum(header) - sum(header[148:156]) + 8 * ord(" ") != expected:
        _refuse()
    parts = [header[345:500] if header[257:263] == b"ustar\0" else b"", header[:100]]
    return (
        "/".join(part.split(b"\0")[0].decode("utf-8", "replace") for part in parts if part.strip(b"\0")),
        length,
        header[156:157],
    )


def _refuse() -> NoReturn:
    raise _DamagedError("a block that is no header")


def _pax(content: bytes) -> dict[str, str]:
    """Returns the records of a pax header: LENGTH KEY=VALUE, each ended by a line feed."""
    records: dict[str, str] = {}
    while content:
        length, _, rest = content.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(content):
            raise _DamagedError("a pax header that is none")
        key, _, value = rest[: int(length) - len(length) - 1].rstrip(b"\n").partition(b"=")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        content = content[int(length) :]
    return records


def _read(file: IO[bytes], size: int) -> bytes:
    data = file.read(size + -size % BLOCK)
    if len(data) < size:
        raise _DamagedError("cut off within a member")
    return data[:size]


def _skip(file: IO[bytes], size: int) -> None:
    left = size + -size % BLOCK
    while left and (data := file.read(min(left, SKIPPED))):
        left -= len(data)
    if left:
        raise _DamagedError("cut off within a member")


def write_samples(path: Path, samples: Iterable[tuple[str, Mapping[str, bytes]]]) -> int:
    """Writes a tar of (key, extension -> bytes), with the same bytes each time; returns the number of samples."""
    from webdataset import TarWriter

    count = 0
    writer: Any = TarWriter(str(path), encoder=False, mtime=0, user="", group="", mode=0o644)
    try:
        for key, members in samples:
            count += 1
            writer.write({"__key__": key, **members})
    finally:
        writer.close()
    return count
