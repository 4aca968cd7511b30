"""Decompresses any file. Its first bytes tell the format, never its name."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from dragoman.model.errors import UserError

Compression = Literal["plain", "gzip", "bzip2", "xz", "lzma", "zstd"]

_MAGIC: dict[bytes, Compression] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x5d\x00\x00": "lzma",  # the format before xz, as its usual settings begin
    b"\x28\xb5\x2f\xfd": "zstd",
    # A frame to skip (RFC 8878, 3.1.2), with which files of pzstd begin; zstd passes over it.
    **{bytes([number]) + b"\x2a\x4d\x18": "zstd" for number in range(0x50, 0x60)},
}
# A compressed text file grows to 3 to 20 times its size, one made to fill disks to 1000.
MOST_EXPANSION = 100
LEAST_LIMIT = 1 << 30  # bytes that every file may expand to, however small it is
_READ = 1 << 20  # bytes
_READ_PACKED = 1 << 13  # bytes; zstd expands them to at most 32,768 times as much, which must fit in memory


class _DamagedError(Exception):
    """A stream is broken; each library has its own error for it."""


def compression_of(path: Path) -> Compression:
    """Returns the file's compression; plain if none is recognised."""
    with path.open("rb") as file:
        return magic_of(file.read(8))


def magic_of(start: bytes) -> Compression:
    """Returns the compression of data with this beginning."""
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "plain")


def plain_blocks(path: Path) -> Iterator[bytes]:
    """Yields the decompressed content of all streams of the file in pieces of about a MiB."""
    kind = compression_of(path)
    try:
        with path.open("rb") as file:
            size = 0
            for block in _blocks(file, kind):
                size += len(block)
                if kind != "plain":
                    check_expansion(path, size)
                yield block
    except EOFError as problem:
        raise UserError(f"{path}: the {kind} file is truncated: it ends before its content does") from problem
    except (gzip.BadGzipFile, zlib.error, _DamagedError) as problem:
        raise UserError(f"{path}: the {kind} file is damaged ({problem})") from problem


def check_expansion(path: Path, size: int) -> None:
    """Raises UserError if `size` bytes are more than a text file can expand to."""
    most = max(LEAST_LIMIT, MOST_EXPANSION * path.stat().st_size)
    if size > most:
        raise UserError(
            f"{path}: comes to more than {most / 1e9:.1f} GB, {MOST_EXPANSION} times its size, when it is unpacked, "
            f"which no text does. If it is right, unpack it yourself and name the plain file"
        )


def _blocks(file: BinaryIO, kind: Compression) -> Iterator[bytes]:
    if kind == "plain":
        yield from iter(lambda: file.read(_READ), b"")
    elif kind == "gzip":  # follows all streams by itself
        with gzip.GzipFile(fileobj=file) as stream:
            yield from iter(lambda: stream.read(_READ), b"")
    else:
        yield from _streams(file, _format(kind))


class _Format(NamedTuple):
    """Reads the streams of one format."""

    begin: Callable[[], Any]  # a decompressor of one stream
    error: type[Exception]
    padding: int  # zeros that may stand between two streams come in multiples of this; 0: none


def _format(kind: Compression) -> _Format:
    if kind == "zstd":
        import zstandard

        return _Format(lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError, 0)
    if kind == "bzip2":
        return _Format(bz2.BZ2Decompressor, OSError, 0)
    if kind == "xz":
        return _Format(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError, 4)
    return _Format(lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE), lzma.LZMAError, 0)


def _streams(file: BinaryIO, form: _Format) -> Iterator[bytes]:
    """Yields the content of all streams, one after another.

    The readers of Python's lzma and bz2 end silently at a broken later stream, so they are not used.
    """
    data = b""
    while data := _skip_padding(file, data, form.padding):
        stream = form.begin()
        while not stream.eof:
            if not data:
                data = file.read(_READ_PACKED)
                if not data:
                    raise EOFError
            try:
                block = stream.decompress(data)
            except form.error as problem:
                raise _DamagedError(str(problem)) from problem
            data = stream.unused_data if stream.eof else b""
            if block:
                yield block


def _skip_padding(file: BinaryIO, data: bytes, padding: int) -> bytes:
    """Skips the zeros between two streams; returns nothing at the end of the file."""
    zeros = 0
    while True:
        rest = data.lstrip(b"\0") if padding else data
        zeros += len(data) - len(rest)
        if rest:
            break
        data = file.read(_READ_PACKED)
        if not data:
            break
    if padding and zeros % padding:
        raise _DamagedError(f"{zeros} zeros between two streams")
    return rest
