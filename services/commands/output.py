"""Where a verb writes its lines: standard output, or a file that is there only when whole."""

import contextlib
import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from model.errors import UserError


@contextlib.contextmanager
def open_output(path: str | None, section: str, key: str = "output") -> Iterator[TextIO]:
    """Standard output, or a file that gets its name only once it is whole; a name that ends in .gz is compressed.

    Raises:
        UserError: the file cannot be written; names the setting SECTION.KEY.
    """
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        yield sys.stdout
        return
    final = Path(path)
    part = final.with_name(f".{final.name}.{os.getpid()}.part")
    packed = final.suffix == ".gz"
    try:
        raw = part.open("wb")
    except OSError as problem:
        raise UserError(f"{section}.{key}: {path} cannot be written ({problem.strerror})") from None
    try:
        inner = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw  # no name, no time: equal bytes
        with raw, inner, io.TextIOWrapper(inner, encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            if packed:
                inner.close()  # its last block and its checksum
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(final)
    finally:
        part.unlink(missing_ok=True)
