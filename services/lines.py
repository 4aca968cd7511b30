"""Lines of a file or of standard input, as sharding reads them: ended by LF or CR LF, never cut at U+0085 or U+2028."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from model.errors import UserError

BOM = b"\xef\xbb\xbf"


def read_lines(
    file: BinaryIO, name: str, on_error: Literal["raise", "skip"], section: str = "translate"
) -> Iterator[str | None]:
    """The lines without their ends; None for one that is not UTF-8, where such are skipped.

    Raises:
        UserError: names the file and the line (from 1) that is not UTF-8.
    """
    for number, raw in enumerate(file, 1):
        line = raw.removeprefix(BOM) if number == 1 else raw
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as problem:
            if on_error == "raise":
                raise UserError(
                    f"{name}, line {number}: not UTF-8 (byte 0x{line[problem.start]:02x} at {problem.start}). "
                    f"{section}.on_error=skip leaves such lines empty"
                ) from None
            yield None


def open_input(path: str | None, section: str = "translate") -> tuple[BinaryIO, str]:
    """The file, or standard input, with its name for messages.

    Raises:
        UserError: it cannot be read.
    """
    if path is None:
        return sys.stdin.buffer, "standard input"
    try:
        return Path(path).open("rb"), path
    except OSError as problem:
        raise UserError(f"{section}.input: {path} cannot be read ({problem.strerror})") from None
