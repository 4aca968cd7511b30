"""Tars of other tools, one text or pair per sample, read and written through the `webdataset` library.

The library opens `pipe:` addresses with a shell and decodes pickles: here it groups selected members of an open file.
"""

import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from dragoman.model.errors import UserError
from dragoman.model.inputs.compression import compression_of
from dragoman.model.inputs.streams import Blocks

META = re.compile(r"__[^/]*__($|/)")  # the library's own members
_BLOCK = 1 << 20  # bytes


def read_members(path: Path, file: IO[bytes], is_wanted: Callable[[str], bool]) -> Iterator[dict[str, Any]]:
    """Yields the library's samples of a tar: {"__key__", extension: bytes}, of the members with `is_wanted` names.

    What is no file is passed over; a sparse one is refused, since it unpacks to a size that it only declares.
    """
    from webdataset.tariterators import group_by_keys

    def contents() -> Iterator[dict[str, Any]]:
        with tarfile.open(fileobj=file, mode="r|*") as tar:
            for member in tar:
                if not member.isreg() or META.match(member.name) or not is_wanted(member.name):
                    continue
                if member.issparse():
                    raise tarfile.ReadError(f"{member.name} is a sparse file; pack it anew without --sparse")
                data = tar.extractfile(member)
                assert data is not None, "a file"
                yield {"fname": member.name, "data": data.read(), "__url__": str(path)}
                tar.members = []  # type: ignore[attr-defined]  # it would keep them all, as long as it reads

    samples: Iterator[dict[str, Any]] = group_by_keys(contents())
    return samples


def read_samples(path: Path, extensions: set[str]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yields (key, extension -> bytes) of every sample of a tar that has one of the `extensions`.

    Raises UserError: the file is no tar, is truncated or damaged, or mixes two consecutive samples.
    """

    def wanted(name: str) -> bool:
        return name.rpartition("/")[2].partition(".")[2].lower() in extensions

    key = "the beginning"
    with Blocks.of(path) as file:
        try:
            for sample in read_members(path, file, wanted):
                key = str(sample["__key__"])
                yield key, {name: data for name, data in sample.items() if not name.startswith("__")}
            while file.read(_BLOCK):  # a compressed file that is cut off behind the last sample says so
                pass
            check_end(path)
        except (tarfile.TarError, EOFError, ValueError) as problem:
            raise UserError(f"{path}: not a whole tar: broken after {key} ({problem.args[0]})") from None


def check_end(path: Path) -> None:
    """Raises UserError if an uncompressed tar lacks the two empty blocks that mark its end."""
    if compression_of(path) != "plain":  # detects truncation itself
        return
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 1024))
        if size < 1024 or file.read().strip(b"\0"):
            raise UserError(f"{path}: cut off: it has no end mark")


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
