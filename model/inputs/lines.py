"""The lines of any text file as UTF-8: read directly, decompressed, decoded, or extracted from a container."""

import codecs
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

from dragoman.model.errors import UserError
from dragoman.model.inputs.archive import Part, member_blocks, members_of
from dragoman.model.inputs.compression import compression_of, plain_blocks
from dragoman.model.inputs.kinds import HEAD, PAIRS, TABLES, Kind, ends_in_returns, head_of, kind_of, marked_encoding
from dragoman.model.inputs.streams import Blocks
from dragoman.model.inputs.units import units_of
from dragoman.model.languages import nearest

ROWS = 8192  # in memory at once
PAIR_COLUMN, TEXT_COLUMN = "translation", "text"  # names that data sets on hubs use


def rows_of(
    path: Path, kind: Literal["parquet", "arrow"], languages: Sequence[str], fields: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """Yields the texts of each row by language; an empty cell is an empty text.

    `fields` are the dotted names of the languages' columns. By default a language's column is named by its code, or by
    its code in `translation`; for a single language it may be `text`.
    """
    import pyarrow

    try:
        schema, batches = _open(path, kind)
        places = [
            _place(path, schema, language, fields[number] if fields else "", len(languages) == 1)
            for number, language in enumerate(languages)
        ]
        for batch in batches({place[0] for place in places}):
            for row in batch.to_pylist():
                yield {language: _text(path, row, place) for language, place in zip(languages, places, strict=True)}
    except (pyarrow.ArrowInvalid, OSError) as problem:
        raise _damage_error(path, kind, problem) from None


def table_lines(path: Path, kind: Literal["parquet", "arrow"]) -> Iterator[str]:
    """Yields each row as its columns with tabs between, in their order; blanks replace tabs and breaks in a cell."""
    import pyarrow

    try:
        schema, batches = _open(path, kind)
        for batch in batches(set(schema.names)):
            for row in batch.to_pylist():
                cells = ("" if row[name] is None else str(row[name]) for name in schema.names)
                yield "\t".join(" ".join(cell.replace("\t", " ").split("\n")) for cell in cells)
    except (pyarrow.ArrowInvalid, OSError) as problem:
        raise _damage_error(path, kind, problem) from None


def _damage_error(path: Path, kind: str, problem: Exception) -> UserError:
    return UserError(f"{path}: the {kind} file is damaged ({str(problem).splitlines()[0]})")


def _open(path: Path, kind: str) -> tuple[Any, Any]:
    """Returns the schema, and a function that yields the batches of some columns."""
    import pyarrow.ipc
    import pyarrow.parquet

    if kind == "parquet":
        table = pyarrow.parquet.ParquetFile(path)
        return table.schema_arrow, lambda names: table.iter_batches(ROWS, columns=sorted(names))
    source = pyarrow.memory_map(str(path))
    with path.open("rb") as file:
        whole = file.read(6) == b"ARROW1"
    reader = pyarrow.ipc.open_file(source) if whole else pyarrow.ipc.open_stream(source)
    each = (reader.get_batch(i) for i in range(reader.num_record_batches)) if whole else iter(reader)
    return reader.schema, lambda names: (batch.select(sorted(names)) for batch in each)


def _place(path: Path, schema: Any, language: str, field: str, alone: bool) -> list[str]:
    """Returns the parts of the dotted name of a language's column."""
    if field and field.partition(".")[0] in schema.names:
        return field.split(".")
    column = nearest(language, tuple(schema.names))
    if column:
        return [column]
    if PAIR_COLUMN in schema.names:
        inner = schema.field(PAIR_COLUMN).type
        names = tuple(inner.field(i).name for i in range(inner.num_fields)) if hasattr(inner, "num_fields") else ()
        column = nearest(language, names)
        if column:
            return [PAIR_COLUMN, column]
    if alone and TEXT_COLUMN in schema.names:
        return [TEXT_COLUMN]
    raise UserError(
        f"{path}: has no column for {language}; columns: {', '.join(schema.names)} "
        f"(corpus.fields='{{source: NAME, target: NAME}}' names those of a corpus; elsewhere rename one)"
    )


def _text(path: Path, row: dict[str, Any], place: Sequence[str]) -> str:
    value: Any = row
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{path}: column {'.'.join(place)} holds {type(value).__name__}, not text")
    return value


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
    encoding: str = ""  # an encoding in which ASCII is not ASCII, such as utf-16-le; empty: detected


def is_container(kind: Kind) -> bool:
    """Returns True if a file of that kind holds texts of several languages or columns."""
    return kind in PAIRS or kind in TABLES


def is_wide(encoding: str) -> bool:
    """Returns True for UTF-16 and UTF-32, where a byte 0x0A may be half of a letter."""
    try:
        return codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    except (LookupError, ValueError):
        return False


def is_in_place(path: Path, view: View) -> bool:
    """Returns True if the file's own bytes are the lines."""
    if view.encoding or compression_of(path) != "plain" or kind_of(path) != "text":
        return False
    return not ends_in_returns(head_of(path))


def line_blocks(path: Path, view: View) -> Iterator[bytes]:
    """Yields the lines in pieces of any size.

    Raises UserError: the file is damaged, of a kind that is not read, or lacks what `view` selects.
    """
    kind = kind_of(path) if not view.encoding else "text"
    if kind in ("text", "utf-16", "utf-32"):
        return text_lines(plain_blocks(path), view.encoding, path)
    if kind == "zip":
        return text_lines(member_blocks(path, view.languages), "", path)
    if kind in TABLES and not view.languages and view.rows == "tsv":
        return _joined(table_lines(path, kind))  # type: ignore[arg-type]  # of the two
    return _joined(_container_lines(path, kind, view))


def open_lines(path: Path, view: View) -> BinaryIO:
    """Opens the lines of a file for reading; the caller closes it.

    Raises UserError: as `line_blocks`; a broken file raises while it is read.
    """
    return path.open("rb") if is_in_place(path, view) else Blocks.from_blocks(line_blocks(path, view))


def parts_of(path: Path, view: View) -> list[Part]:
    """Returns the texts of a file: the .txt members of a zip archive, or its lines.

    Raises UserError: as `line_blocks`.
    """
    if not view.encoding and kind_of(path) == "zip":
        members = members_of(path, view.languages[0] if view.languages else "")
        return [Part(member.name, partial(_member_lines, member, path)) for member in members]
    return [Part("", lambda: line_blocks(path, view))]


def text_lines(blocks: Iterable[bytes], encoding: str, path: Path) -> Iterator[bytes]:
    """Yields a text as UTF-8 whose lines end in line feeds; with an empty `encoding` the first bytes decide."""
    rest = iter(blocks)
    first = next(rest, b"")
    encoding = encoding or marked_encoding(first) or ""
    whole = chain([first], rest)
    return _with_line_feeds(transcode(whole, encoding, path) if encoding else whole)


def _member_lines(part: Part, path: Path) -> Iterator[bytes]:
    return text_lines(part.blocks(), "", path)


def _with_line_feeds(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the blocks; if the first lines end in carriage returns, those become line feeds."""
    first = next(blocks, b"")
    if not ends_in_returns(first[:HEAD]):
        if first:
            yield first
        yield from blocks
        return
    before = b""
    for block in chain([first], blocks):
        if before == b"\r" and block.startswith(b"\n"):
            yield block[1:].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        else:
            yield block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        before = block[-1:]


def transcode(blocks: Iterable[bytes], encoding: str, path: Path) -> Iterator[bytes]:
    """Yields text of another encoding as UTF-8, without its byte order mark."""
    decoder = codecs.getincrementaldecoder(encoding)()
    done, first = 0, True
    by_mark = codecs.lookup(encoding).name in ("utf-16", "utf-32")
    for block in _append_end(blocks):
        if by_mark and first and block and not done and not marked_encoding(block):
            choices = " or ".join(f"corpus.encoding={encoding}-{order}" for order in ("le", "be"))
            raise UserError(f"{path}: begins with no byte order mark; {choices} reads it")
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as problem:
            raise UserError(
                f"{path}: is no whole {encoding.upper()}: byte {done + problem.start + 1} and those after it are no "
                f"letter ({problem.reason})"
            ) from None
        done += len(block)
        text = text.removeprefix("\ufeff") if first and text else text
        first = first and not text
        if text:
            yield text.encode("utf-8", "surrogatepass")


def _append_end(blocks: Iterable[bytes]) -> Iterator[bytes]:
    yield from (block for block in blocks if block)
    yield b""


def _container_lines(path: Path, kind: Kind, view: View) -> Iterator[str]:
    """Yields one line per unit or row; a missing language gives an empty text, so that sides stay aligned."""
    if not view.languages:
        raise UserError(f"{path}: is a {kind} file; its languages are needed: pair=SOURCE-TARGET")
    units = units_of(path, kind, "keep") if kind in PAIRS else rows_of(path, kind, view.languages, view.fields)  # type: ignore[arg-type]  # the two kinds of each
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
    block: list[str] = []
    for line in lines:
        block.append(line)
        if len(block) == LINES_A_BLOCK:
            yield "".join(f"{line}\n" for line in block).encode("utf-8", "surrogatepass")
            block = []
    if block:
        yield "".join(f"{line}\n" for line in block).encode("utf-8", "surrogatepass")
