"""Lines of a file or of standard input, as sharding reads them: ended by LF or CR LF, never cut at U+0085 or U+2028."""

import contextlib
import gzip
import itertools
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar, cast

from model.errors import UserError

T = TypeVar("T")
BOM = b"\xef\xbb\xbf"


def read_lines(
    file: BinaryIO, name: str, on_error: Literal["raise", "skip"], section: str | None = "translate"
) -> Iterator[str | None]:
    """The lines without their ends; None for one that is not UTF-8, where such are skipped.

    Raises:
        UserError: names the file and the line (from 1) that is not UTF-8, and SECTION.on_error where there is one.
    """
    for number, raw in enumerate(_raw_lines(file, name), 1):
        line = raw.removeprefix(BOM) if number == 1 else raw
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as problem:
            if on_error == "raise":
                advice = f". {section}.on_error=skip leaves such lines empty" if section else ""
                raise UserError(
                    f"{name}, line {number}: not UTF-8 (byte 0x{line[problem.start]:02x} at {problem.start}){advice}"
                ) from None
            yield None


def _raw_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines as bytes; UserError where the file's compression is broken."""
    try:
        yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise UserError(f"{name}: not a whole gzip file ({problem})") from None


@contextlib.contextmanager
def open_input(path: str | None, section: str, key: str = "input") -> Iterator[tuple[BinaryIO, str]]:
    """The file (`.gz`: what it holds, uncompressed) or standard input, with its name for messages, for a block.

    Raises:
        UserError: it cannot be read; names the setting SECTION.KEY.
    """
    if path is None:
        yield sys.stdin.buffer, "standard input"
        return
    with contextlib.ExitStack() as stack:
        try:
            file: BinaryIO = stack.enter_context(Path(path).open("rb"))
            if path.endswith(".gz"):
                file = stack.enter_context(cast("BinaryIO", gzip.GzipFile(fileobj=file)))
        except OSError as problem:
            raise UserError(f"{section}.{key}: {path} cannot be read ({problem.strerror})") from None
        yield file, path


def batches(lines: Iterator[T], size: int) -> Iterator[list[T]]:
    """`size` at a time; the last may be fewer."""
    while chunk := list(itertools.islice(lines, size)):
        yield chunk


def flat(text: str) -> str:
    """One line of it: a translation must not add lines to the output."""
    return " ".join(text.splitlines()) if len(text.splitlines()) > 1 else text
