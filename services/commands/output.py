"""A command's output: standard output, or a file that appears only when complete."""

import contextlib
import gzip
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open


@contextlib.contextmanager
def open_output(path: str | None, section: str, key: str = "output") -> Iterator[TextIO]:
    """Yields standard output, or a file that gets its name once it is complete; .gz is compressed.

    Raises UserError: the file cannot be written; names the setting SECTION.KEY.
    """
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        yield sys.stdout
        return
    final = Path(path)
    if final.is_dir():
        raise UserError(f"{section}.{key}: {path} is a folder; name a file in it")
    with contextlib.ExitStack() as stack:
        try:
            raw = stack.enter_context(atomic_open(final))
        except OSError as problem:
            raise UserError(f"{section}.{key}: {path} cannot be written ({problem.strerror})") from None
        packed = final.suffix == ".gz"
        inner = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw  # no name and time, for equal bytes
        with inner, io.TextIOWrapper(inner, encoding="utf-8", newline="\n") as file:
            yield file
