"""Plain bytes out of any corpus file. What a file is, is told by its first bytes, never by its name."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from model.errors import UserError

Compression = Literal["plain", "gzip", "bzip2", "xz", "zstd"]

_MAGIC: dict[bytes, Compression] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
MOST_EXPANSION = (
    100  # a file of text that is compressed grows to 3 to 20 times its size, one made to fill disks to 1000
)
LEAST_LIMIT = 1 << 30  # bytes that every file may come to, however small it is
_READ = 1 << 20  # bytes
_READ_ZSTD = 1 << 13  # bytes; what they come to, which is at most 32,768 times as much, is in memory at once


def compression_of(path: Path) -> Compression:
    """How the file is compressed; plain where nothing is recognised."""
    with path.open("rb") as file:
        start = file.read(8)
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "plain")


def plain_blocks(path: Path) -> Iterator[bytes]:
    """The decompressed content in pieces of about a MiB.

    Raises:
        UserError: the compressed stream ends too early, is damaged or goes on for too long; names the file.
    """
    kind = compression_of(path)
    try:
        with path.open("rb") as file:
            size = 0
            for block in _zstd_blocks(file) if kind == "zstd" else _stream_blocks(file, kind):
                size += len(block)
                if kind != "plain":
                    check_expansion(path, size)
                yield block
    except EOFError as problem:
        raise UserError(f"{path}: the {kind} file is truncated: it ends before its content does") from problem
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, _DamagedError) as problem:
        raise UserError(f"{path}: the {kind} file is damaged ({problem})") from problem
    except OSError as problem:
        if kind == "bzip2" and problem.errno is None:  # bz2 reports bad data as a bare OSError
            raise UserError(f"{path}: the {kind} file is damaged ({problem})") from problem
        raise


def check_expansion(path: Path, size: int) -> None:
    """Raises UserError where `size` bytes are more than a file of text comes to when it is unpacked."""
    most = max(LEAST_LIMIT, MOST_EXPANSION * path.stat().st_size)
    if size > most:
        raise UserError(
            f"{path}: comes to more than {most / 1e9:.1f} GB, {MOST_EXPANSION} times its size, when it is unpacked, "
            f"which no text does. If it is right, unpack it yourself and name the plain file"
        )


class _DamagedError(Exception):
    """zstandard's own error, before the library is known to be imported."""


def _stream_blocks(file: BinaryIO, kind: Compression) -> Iterator[bytes]:
    # all three follow concatenated streams and raise EOFError on a cut one
    if kind == "gzip":
        with gzip.GzipFile(fileobj=file) as stream:
            yield from iter(lambda: stream.read(_READ), b"")
    elif kind == "bzip2":
        with bz2.BZ2File(file) as stream:
            yield from iter(lambda: stream.read(_READ), b"")
    elif kind == "xz":
        with lzma.LZMAFile(file) as stream:
            yield from iter(lambda: stream.read(_READ), b"")
    else:
        yield from iter(lambda: file.read(_READ), b"")


def _zstd_blocks(file: BinaryIO) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor().decompressobj()
    started = False
    try:
        while data := file.read(_READ_ZSTD):
            while data:
                started = True
                block = decompressor.decompress(data)
                if block:
                    yield block
                data = b""
                if decompressor.eof:  # another frame may follow
                    data = decompressor.unused_data
                    decompressor = zstandard.ZstdDecompressor().decompressobj()
                    started = False
    except zstandard.ZstdError as problem:
        raise _DamagedError(str(problem)) from problem
    if started:
        raise EOFError
