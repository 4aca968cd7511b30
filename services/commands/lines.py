"""A command's input and output: lines of a file or a standard stream.

Lines end at LF or CR LF, never at U+0085 or U+2028, as in sharding. A file that is written appears only when complete.
"""

import contextlib
import gzip
import io
import itertools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, TypeVar

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open
from dragoman.model.inputs.compression import magic_of
from dragoman.model.inputs.kinds import HEAD, kind_of_head
from dragoman.model.inputs.lines import Rows, View, is_in_place, line_blocks
from dragoman.model.inputs.streams import Blocks
from dragoman.model.schema import NO_SETTING

# Endings of files that are no text, or that nothing here compresses: lines in such a file would mislead.
_NO_TEXT = ".npy .npz .parquet .docx .xlsx .pptx .odt .epub .pdf .mo .zip .tar .tgz .bz2 .xz .zst .pt .safetensors"
NO_TEXT = frozenset(_NO_TEXT.split())
T = TypeVar("T")
BAR, ESCAPED_BAR = "|||", "&#124;&#124;&#124;"  # separator of columns in Moses' lists, and its escaped form
BOM = b"\xef\xbb\xbf"
logger = logging.getLogger(__name__)


def read_lines(
    file: BinaryIO, name: str, on_error: Literal["raise", "skip"], skips: bool = True
) -> Iterator[str | None]:
    """Yields the lines without their ends; None for one that is not UTF-8, if such lines are skipped.

    `skips`: the command can skip them.
    """
    for number, raw in enumerate(file, 1):
        line = raw.removeprefix(BOM) if number == 1 else raw
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as problem:
            if on_error == "raise":
                advice = ". on_error=skip leaves such lines empty" if skips else ""
                raise UserError(
                    f"{name}, line {number}: not UTF-8 (byte 0x{line[problem.start]:02x} at {problem.start}){advice}"
                ) from None
            yield None


@contextlib.contextmanager
def open_input(
    path: str | None,
    key: str = "input",
    languages: Callable[[], tuple[str, ...]] = tuple,
    rows: Rows = "json",
    text: str | None = None,
) -> Iterator[tuple[BinaryIO, str]]:
    """Opens the lines of a file of any kind that `model.inputs` reads, or standard input, with its name for messages.

    `languages` is called when a container of several languages is read; `rows` is the form of its pairs; `text` is the
    text of the command line, which is read instead.
    """
    if text is not None:
        if path is not None:
            raise UserError(f"{key}={path}: give a file or a text, not both ({text[:60]!r})")
        yield io.BytesIO(text.encode("utf-8", "surrogateescape")), "the command line"
        return
    if path is None:
        if sys.stdin is None:  # closed, as by `<&-`
            raise UserError(f"{key}: standard input is closed; name a file")
        _check_stream(sys.stdin.buffer, key)
        if sys.stdin.isatty():
            logger.info("reads the keyboard, a text a line; Ctrl-D ends")
        yield sys.stdin.buffer, "standard input"
        return
    with file_errors(key, path, "read"):
        in_place = is_in_place(Path(path))
    with Path(path).open("rb") if in_place else Blocks.from_blocks(_blocks(Path(path), languages, rows)) as file:
        yield file, path


def _check_stream(stream: BinaryIO, key: str) -> None:
    """Refuses a stream that is not lines of UTF-8: other kinds of files are read by name."""
    if not isinstance(stream, io.BufferedReader) or stream.isatty():
        return
    head = stream.peek(HEAD)[:HEAD]
    magic: str = magic_of(head)
    if magic == "plain":
        magic = kind_of_head(head, "standard input")
    if magic != "text":
        raise UserError(f"{key}: standard input holds {magic}, not lines of UTF-8; {key}=FILE reads such a file")


def _blocks(path: Path, languages: Callable[[], tuple[str, ...]], rows: Rows) -> Iterator[bytes]:
    yield from line_blocks(path, View(languages(), rows=rows))


def batches(lines: Iterator[T], size: int) -> Iterator[list[T]]:
    """Yields `size` items at a time; the last may be fewer."""
    while chunk := list(itertools.islice(lines, size)):
        yield chunk


def flat(text: str) -> str:
    """Joins the text into one line, since a translation must not add lines to the output."""
    return " ".join(text.splitlines())


def to_column(text: str) -> str:
    """Returns one column of a Moses list: a single line with Moses' escape for the separators."""
    return flat(text).replace(BAR, ESCAPED_BAR)


def from_column(column: str) -> str:
    """Returns the text that `to_column` wrote, without blanks at its ends."""
    return column.strip().replace(ESCAPED_BAR, BAR)


def check_files(section: str, config: Any) -> None:
    """Refuses an output that is read as well: it would replace its own input."""
    files = {
        f"{section}.{field.name}" if field.metadata != NO_SETTING else field.name: value
        for field in fields(config)
        if isinstance(value := getattr(config, field.name), str)
    }
    for key in {"output", f"{section}.report", f"{section}.attention", f"{section}.picture"} & files.keys():
        for other, path in files.items():
            if other != key and Path(path).is_file() and Path(files[key]).resolve() == Path(path).resolve():
                raise UserError(f"{key}={files[key]}: is {other} too; name another file")


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
def open_output(path: str | None, key: str = "output") -> Iterator[TextIO]:
    """Yields standard output, or a file that gets its name once it is complete; .gz is compressed."""
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        yield sys.stdout
        return
    final = Path(path)
    if final.suffix.lower() in NO_TEXT:
        raise UserError(f"{key}: {path}: lines of text are written, which no {final.suffix} file has")
    if final.is_dir():
        raise UserError(f"{key}: {path} is a folder; name a file in it")
    with contextlib.ExitStack() as stack:
        with file_errors(key, path):
            raw = stack.enter_context(atomic_open(final))
        packed = final.suffix == ".gz"
        inner = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw  # no name and time, for equal bytes
        with inner, io.TextIOWrapper(inner, encoding="utf-8", newline="\n") as file:
            yield file
