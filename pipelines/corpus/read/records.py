"""Reads a block of lines into two equally long lists of text, and names or counts every bad line."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.inputs.json_rows import parse_row, text_at
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.settings import CorpusConfig, OnError

_ARRAY = re.compile(r"\s*\[\s*(\{|$)")
ID_ROWS, FEWEST_ID_ROWS = 100, 3  # rows read to tell a column of ids from a text
_ASCII_LETTERS = re.compile(rb"[A-Za-z]")
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")


@dataclass
class Records:
    """Raw text of both sides, one entry per line. Skipped lines are empty and listed in `bad`."""

    source: list[str]
    target: list[str]
    bad: dict[int, str] = field(default_factory=dict)  # line within the block -> reason
    counts: Counter[str] = field(default_factory=Counter)


def read_records(block: Block, on_error: OnError, encodings: Sequence[str] = ("utf-8",)) -> Records:
    """Reads the block's lines as text."""
    sides = []
    bad: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for side in range(len(block.source.files)):
        sides.append(decoded_lines(block, side, encodings, on_error, bad, counts))
    if block.source.format == "moses":
        records = Records(sides[0], sides[1], bad, counts)
    else:
        if block.source.header and block.first_line == 0:
            bad[0] = "header"
        records = _parse_lines(sides[0], row_parser(block.source), block, on_error, bad)
        records.counts = counts
        if block.source.format == "tsv" and block.first_line == 0:
            _refuse_number_columns(records, block)
    records.counts["nul"] = sum("\0" in text for side in (records.source, records.target) for text in side)
    return records


def encodings_of(config: CorpusConfig) -> tuple[str, ...]:
    """Returns the encodings of staged lines: those of `corpus.encoding`.

    An encoding of lines must contain ASCII unchanged, because only then does a byte 0x0A end a line.
    """
    names = [config.encoding] if isinstance(config.encoding, str) else config.encoding
    ascii_bytes = bytes(range(128))
    for name in names:
        try:
            fits = ascii_bytes.decode(name) == ascii_bytes.decode("ascii")
        except (LookupError, ValueError):
            fits = False
        if not fits:
            raise UserError(
                f"corpus.encoding={name}: expected one that holds ASCII as it is, such as utf-8 (UTF-16 is read by its "
                f"mark)"
            )
    if not names:
        raise UserError("corpus.encoding: expected at least one, such as utf-8")
    return tuple(names)


def decoded_lines(
    block: Block, side: int, encodings: Sequence[str], on_error: OnError, bad: dict[int, str], counts: Counter[str]
) -> list[str]:
    """Returns lines without their ends (LF or CRLF); those that no encoding fits are empty and listed in `bad`."""
    data = block.read(side)
    if data.endswith(b"\n"):
        data = data[:-1]
    if block.first_line == 0 and data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    try:
        text = data.decode(encodings[0])
    except UnicodeDecodeError as problem:
        if on_error == "raise" and len(encodings) == 1:
            raise _undecodable(data, problem, block, side, encodings) from problem
        lines = []
        for number, line in enumerate(data.split(b"\n")):
            decoded = _decode_line(line, encodings, counts)
            if decoded is None and on_error == "raise":
                raise _undecodable(data, problem, block, side, encodings, number) from problem
            if decoded is None:
                bad[number] = "invalid_utf8" if tuple(encodings) == ("utf-8",) else "undecodable"
            lines.append(decoded or "")
        text = "\n".join(lines)
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    return text.split("\n")


def _undecodable(
    data: bytes, problem: UnicodeDecodeError, block: Block, side: int, encodings: Sequence[str], line: int | None = None
) -> UserError:
    """Returns the error for the undecodable line, or for `line` if several encodings were tried."""
    number = data.count(b"\n", 0, problem.start) if line is None else line
    where = ""
    if line is None:
        start = data.rfind(b"\n", 0, problem.start) + 1
        where = f" at byte {problem.start - start + 1} of the line (0x{data[problem.start]:02x})"
    written = " and ".join(name.upper() for name in encodings)
    skip = "corpus.on_error=skip leaves such lines out"
    broken = data.split(b"\n")[number]
    if _is_text(broken):
        own = "corpus.encoding names the file's own, such as cp1251, koi8-r, shift_jis, gb18030, euc-kr or cp1256"
        if _is_mostly_ascii(broken):
            own = "corpus.encoding='[utf-8,latin-1]' reads them as Latin-1"
        return UserError(f"{block.locate(number, side)}: invalid {written}{where}; {skip}, {own}")
    why = "it is no text in any encoding of lines, or holds half of a character"
    return UserError(f"{block.locate(number, side)}: invalid {written}{where}: {why}; {skip}")


def _is_text(line: bytes) -> bool:
    """Returns True if a line that is not UTF-8 may be Latin-1: no controls, and not UTF-8 with lone surrogates."""
    if _CONTROLS.search(line):
        return False
    try:
        line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return True
    return False


def _is_mostly_ascii(line: bytes) -> bool:
    """Returns True if most letters are of ASCII, as in Western European languages; Latin-1 makes noise of others."""
    return len(_ASCII_LETTERS.findall(line)) >= sum(byte >= 0x80 for byte in line)


def _decode_line(line: bytes, encodings: Sequence[str], counts: Counter[str]) -> str | None:
    for number, encoding in enumerate(encodings):
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError:
            continue
        counts["other_encoding"] += number > 0
        return text
    return None


class MalformedRowError(Exception):
    """A row has not the columns or fields that are read."""


def _parse_lines(
    lines: list[str], parse: Callable[[str], tuple[str, str]], block: Block, on_error: OnError, bad: dict[int, str]
) -> Records:
    source, target = [], []
    for number, line in enumerate(lines):
        left, right = "", ""
        if number not in bad and line.strip():  # an empty row is a blank pair and is counted as such
            try:
                left, right = parse(line)
            except MalformedRowError as problem:
                if on_error == "raise":
                    raise UserError(
                        f"{block.source.files[0]}: line {block.first_line + number + 1}: {problem}; "
                        f"corpus.on_error=skip leaves such lines out"
                    ) from problem
                bad[number] = "malformed"
        source.append(left)
        target.append(right)
    return Records(source, target, bad)


def row_parser(source: Source) -> Callable[[str], tuple[str, str]]:
    """Returns the function that takes a row's two sides; it raises MalformedRowError."""
    return _tsv_row(source.columns) if source.format == "tsv" else _json_row(source.columns)


def _refuse_number_columns(records: Records, block: Block) -> None:
    """Refuses a TSV whose first rows have only numbers on one side: `corpus.columns` takes ids for a text."""
    rows = [pair for pair in zip(records.source, records.target, strict=True) if all(pair)][:ID_ROWS]
    if len(rows) < FEWEST_ID_ROWS:
        return
    numbers = [all(text.strip().isdecimal() for text in side) for side in zip(*rows, strict=True)]
    if sum(numbers) == 1:
        side = numbers.index(True)
        cells = ", ".join(pair[side].strip() for pair in rows[:3])
        raise UserError(
            f"corpus.columns: column {int(block.source.columns[side]) + 1} of {block.source.files[0]}, read as the "
            f"{('source', 'target')[side]}, has only numbers ({cells} ...). Give each column in order a name, and - to "
            "those that are no text, for example 'corpus.columns=[-,source,target]'"
        )


def _tsv_row(columns: tuple[str, ...]) -> Callable[[str], tuple[str, str]]:
    left, right = int(columns[0]), int(columns[1])
    needed = max(left, right) + 1

    def parse(line: str) -> tuple[str, str]:
        cells = line.split("\t")
        if len(cells) < needed:
            comma = "; columns are separated by tabs, not commas" if len(cells) == 1 and "," in line else ""
            raise MalformedRowError(f"has {len(cells)} column(s), corpus.columns needs {needed}{comma}")
        return cells[left], cells[right]

    return parse


def _json_row(columns: tuple[str, ...]) -> Callable[[str], tuple[str, str]]:
    paths = [column.split(".") for column in columns]

    def parse(line: str) -> tuple[str, str]:
        if _ARRAY.match(line):
            raise MalformedRowError("begins a JSON array; an object a line is read (jq -c '.[]' FILE writes that)")
        try:
            row = parse_row(line)
        except ValueError as problem:
            raise MalformedRowError(f"is no JSON ({problem})") from problem
        left, right = (_field(row, path) for path in paths)
        return left.replace("\n", " "), right.replace("\n", " ")

    return parse


def _field(row: Any, path: list[str]) -> str:
    try:
        text = text_at(row, path)
    except TypeError as problem:
        raise MalformedRowError(f"field {'.'.join(path)!r} is no text but {problem}") from None
    if text is None:
        there = f" but {', '.join(map(repr, row))}" if isinstance(row, dict) else ""
        named = "corpus.fields='{source: NAME, target: NAME}' names them"
        raise MalformedRowError(f"has no field {'.'.join(path)!r}{there} ({named})")
    return text
