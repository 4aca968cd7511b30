"""A command's output: standard output, or a file that appears only when complete."""

import contextlib
import gzip
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TextIO

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open

# Endings of files that are no text, or that nothing here compresses: lines in such a file would mislead.
_NO_TEXT = ".npy .npz .parquet .docx .xlsx .pptx .odt .epub .pdf .mo .zip .tar .tgz .bz2 .xz .zst .pt .safetensors"
NO_TEXT = frozenset(_NO_TEXT.split())


def check_files(section: str, config: Any) -> None:
    """Refuses an output that is read as well: it would replace its own input."""
    files = {field.name: value for field in fields(config) if isinstance(value := getattr(config, field.name), str)}
    for key in {"output", "report", "attention", "picture"} & files.keys():
        for other, path in files.items():
            if other != key and Path(path).is_file() and Path(files[key]).resolve() == Path(path).resolve():
                raise UserError(f"{section}.{key}={files[key]}: is {section}.{other} too; name another file")


@contextlib.contextmanager
def file_errors(key: str, path: object, done: Literal["read", "written"] = "written") -> Iterator[None]:
    """Makes a UserError that names the setting and the file of an error of the disk in the block."""
    try:
        yield
    except OSError as problem:
        raise UserError(f"{key}: {path} cannot be {done} ({problem.strerror})") from None


def check_picture(key: str, path: str | None, suffixes: Sequence[str]) -> None:
    """Refuses, before anything is loaded, a file that could not be written at the end."""
    if path is None:
        return
    file = Path(path)
    if file.suffix.lower() not in suffixes:
        raise UserError(f"{key}: {path}: unknown kind of file. Choices: {', '.join(suffixes)}")
    if not file.absolute().parent.is_dir():
        raise UserError(f"{key}: {path} cannot be written (no such folder)")


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
    if final.suffix.lower() in NO_TEXT:
        raise UserError(f"{section}.{key}: {path}: lines of text are written, which no {final.suffix} file has")
    if final.is_dir():
        raise UserError(f"{section}.{key}: {path} is a folder; name a file in it")
    with contextlib.ExitStack() as stack:
        with file_errors(f"{section}.{key}", path):
            raw = stack.enter_context(atomic_open(final))
        packed = final.suffix == ".gz"
        inner = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw  # no name and time, for equal bytes
        with inner, io.TextIOWrapper(inner, encoding="utf-8", newline="\n") as file:
            yield file
