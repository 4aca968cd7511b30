"""Tars of other tools, one text or pair per sample, read and written through the `webdataset` library.

As in `stream`, the library gets only open files and selected members: it runs no command and decodes no pickle.
"""

import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.inputs.compression import compression_of
from dragoman.model.inputs.streams import Blocks

_BLOCK = 1 << 20  # bytes


def read_samples(path: Path, extensions: set[str]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yields (key, extension -> bytes) of every sample of a tar that has one of the `extensions`.

    Raises UserError: the file is no tar, is truncated or damaged, or mixes two consecutive samples.
    """
    from webdataset.tariterators import group_by_keys, tar_file_expander

    def wanted(name: str) -> bool:
        return name.rpartition("/")[2].partition(".")[2].lower() in extensions

    key = "the beginning"
    with Blocks.of(path) as file:
        try:
            for sample in group_by_keys(tar_file_expander([{"url": str(path), "stream": file}], select_files=wanted)):
                key = str(sample["__key__"])
                yield key, {name: data for name, data in sample.items() if not name.startswith("__")}
            while file.read(_BLOCK):  # a compressed file that is cut off behind the last sample says so
                pass
            check_end(path)
        except UserError as problem:  # the library has added its own arguments
            raise UserError(problem.args[0]) from None
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
