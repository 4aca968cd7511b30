"""The lines of any text file as UTF-8: read directly, decompressed, decoded, or extracted from a container."""

import codecs
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Literal

from dragoman.model.errors import UserError
from dragoman.model.inputs.archive import Part, member_blocks, members_of
from dragoman.model.inputs.catalogue import messages_of
from dragoman.model.inputs.compression import compression_of, plain_blocks
from dragoman.model.inputs.kinds import PAIRS, Kind, is_utf_16, kind_of
from dragoman.model.inputs.streams import Blocks
from dragoman.model.inputs.tables import rows_of, table_lines
from dragoman.model.inputs.units import units_of
from dragoman.model.languages import nearest

SIDES = ("source", "target")
Rows = Literal["json", "tsv"]
LINES_A_BLOCK = 4096
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class View:
    """Selects the lines of a file."""

    # One: its text; two: JSON with the keys source and target; none: all lines, for a table all columns as TSV.
    languages: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()  # for a table: the dotted name of each language's column
    rows: Rows = "json"  # the form of a pair: JSON, or source TAB target


def is_container(kind: Kind) -> bool:
    """Returns True if a file of that kind holds texts of several languages or columns."""
    return kind in PAIRS or kind == "parquet"


def is_in_place(path: Path) -> bool:
    """Returns True if the file's own bytes are the lines."""
    return compression_of(path) == "plain" and kind_of(path) == "text"


def line_blocks(path: Path, view: View) -> Iterator[bytes]:
    """Yields the lines in pieces of any size."""
    kind = kind_of(path)
    if kind in ("text", "utf-16"):
        return as_utf_8(plain_blocks(path), path)
    if kind == "zip":
        return as_utf_8(member_blocks(path, view.languages), path)
    if kind == "parquet" and not view.languages and view.rows == "tsv":
        return _joined(table_lines(path))
    return _joined(_container_lines(path, kind, view))


def open_lines(path: Path, view: View) -> BinaryIO:
    """Opens the lines of a file for reading; the caller closes it."""
    return path.open("rb") if is_in_place(path) else Blocks.from_blocks(line_blocks(path, view))


def parts_of(path: Path, view: View) -> list[Part]:
    """Returns the texts of a file: the .txt members of a zip archive, or its lines."""
    if kind_of(path) == "zip":
        members = members_of(path, view.languages[0] if view.languages else "")
        return [Part(member.name, partial(_member_lines, member, path)) for member in members]
    return [Part("", lambda: line_blocks(path, view))]


def _member_lines(part: Part, path: Path) -> Iterator[bytes]:
    return as_utf_8(part.blocks(), path)


def as_utf_8(blocks: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """Yields a text as it is, or as UTF-8 if it begins with the byte order mark of UTF-16."""
    rest = iter(blocks)
    first = next(rest, b"")
    whole = chain([first], rest)
    return _transcoded(whole, path) if is_utf_16(first) else whole


def _transcoded(blocks: Iterable[bytes], path: Path) -> Iterator[bytes]:
    decoder, done = codecs.getincrementaldecoder("utf-16")(), 0
    for block in chain((block for block in blocks if block), [b""]):
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as problem:
            raise UserError(
                f"{path}: is no whole UTF-16: byte {done + problem.start + 1} and those after it are no letter "
                f"({problem.reason})"
            ) from None
        done += len(block)
        if text:
            yield text.encode("utf-8", "surrogatepass")


def _container_lines(path: Path, kind: Kind, view: View) -> Iterator[str]:
    """Yields one line per unit or row; a missing language gives an empty text, so that sides stay aligned."""
    if not view.languages:
        raise UserError(f"{path}: is a {kind} file; its languages are needed: pair=SOURCE-TARGET")
    units: Iterable[dict[str, str]]
    if kind == "tmx":
        units = units_of(path)
    else:
        units = messages_of(path, view.languages) if kind == "po" else rows_of(path, view.languages, view.fields)
    total, lacking = 0, dict.fromkeys(view.languages, 0)
    offered: set[str] = set()
    for unit in units:
        total += 1
        names = {language: nearest(language, tuple(unit)) for language in view.languages}
        texts = ["" if name is None else " ".join(unit[name].split("\n")) for name in names.values()]
        for language, text in zip(view.languages, texts, strict=True):
            lacking[language] += not text
        offered.update(unit)
        if len(texts) == 1 or view.rows == "tsv":
            yield "\t".join(text.replace("\t", " ") for text in texts)
        else:
            yield json.dumps(dict(zip(SIDES, texts, strict=True)), ensure_ascii=False)
    if not total:
        raise UserError(f"{path}: the {kind} file holds no {'units' if kind in PAIRS else 'rows'}")
    for language, missing in lacking.items():
        if missing == total:
            raise UserError(f"{path}: has no text in {language}; languages: {', '.join(sorted(offered)) or 'none'}")
        if missing:
            logger.warning("%s: %s of %s units have no text in %s", path, f"{missing:,}", f"{total:,}", language)


def _joined(lines: Iterable[str]) -> Iterator[bytes]:
    rest = iter(lines)
    while block := "".join(f"{line}\n" for line in islice(rest, LINES_A_BLOCK)):
        yield block.encode("utf-8", "surrogatepass")
