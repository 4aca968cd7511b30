"""A block of lines becomes two equally long lists of text, with every bad line named or counted."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.errors import UserError
from pipelines.corpus.settings import OnError
from pipelines.corpus.staging import Block

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass
class Records:
    """Raw text of both sides, a line an entry. Entries of lines that were skipped are empty and listed in `bad`."""

    source: list[str]
    target: list[str]
    bad: dict[int, str] = field(default_factory=dict)  # line within the block -> reason
    counts: Counter[str] = field(default_factory=Counter)


def read_records(block: Block, on_error: OnError) -> Records:
    """The block's lines as text.

    Raises:
        UserError: `on_error` is raise and a line is invalid UTF-8 or a malformed row; names file and line.
    """
    sides = []
    bad: dict[int, str] = {}
    for path, (start, stop), name in zip(block.plain, block.ranges, block.source.files, strict=True):
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(stop - start)
        sides.append(_lines(data, name, block, on_error, bad))
    if block.source.format == "moses":
        records = Records(sides[0], sides[1], bad)
    else:
        parse = _tsv_row(block.source.places) if block.source.format == "tsv" else _json_row(block.source.places)
        records = _parsed(sides[0], parse, block, on_error, bad)
    records.counts["nul"] = sum("\0" in text for side in (records.source, records.target) for text in side)
    return records


def _lines(data: bytes, name: Path, block: Block, on_error: OnError, bad: dict[int, str]) -> list[str]:
    """Decoded lines without their ends (LF or CRLF)."""
    if data.endswith(b"\n"):
        data = data[:-1]
    if block.first_line == 0 and data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        if on_error == "raise":
            line = data.count(b"\n", 0, problem.start)
            where = problem.start - (data.rfind(b"\n", 0, problem.start) + 1)
            hint = "; it looks like UTF-16" if block.first_line == 0 and data[:2] in _UTF16 else ""
            raise UserError(
                f"{name}: line {block.first_line + line + 1}: invalid UTF-8 at byte {where + 1} of the line"
                f" (0x{data[problem.start]:02x}){hint}; corpus.on_error=skip leaves such lines out"
            ) from problem
        text = "\n".join(_decoded(line, number, bad) for number, line in enumerate(data.split(b"\n")))
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    return text.split("\n")


def _decoded(line: bytes, number: int, bad: dict[int, str]) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        bad[number] = "invalid_utf8"
        return ""


class _MalformedError(Exception):
    pass


def _parsed(
    lines: list[str], parse: Callable[[str], tuple[str, str]], block: Block, on_error: OnError, bad: dict[int, str]
) -> Records:
    source, target = [], []
    for number, line in enumerate(lines):
        left, right = "", ""
        if number not in bad and line.strip():  # an empty row is a blank pair and counted as one
            try:
                left, right = parse(line)
            except _MalformedError as problem:
                if on_error == "raise":
                    raise UserError(
                        f"{block.source.files[0]}: line {block.first_line + number + 1}: {problem}; "
                        f"corpus.on_error=skip leaves such lines out"
                    ) from problem
                bad[number] = "malformed"
        source.append(left)
        target.append(right)
    return Records(source, target, bad)


def _tsv_row(places: tuple[str, ...]) -> Callable[[str], tuple[str, str]]:
    left, right = int(places[0]), int(places[1])
    needed = max(left, right) + 1

    def parse(line: str) -> tuple[str, str]:
        columns = line.split("\t")
        if len(columns) < needed:
            raise _MalformedError(f"has {len(columns)} column(s), corpus.columns needs {needed}")
        return columns[left], columns[right]

    return parse


def _json_row(places: tuple[str, ...]) -> Callable[[str], tuple[str, str]]:
    paths = [place.split(".") for place in places]

    def parse(line: str) -> tuple[str, str]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise _MalformedError(f"is no JSON ({problem})") from problem
        left, right = (_field(row, path) for path in paths)
        return left.replace("\n", " "), right.replace("\n", " ")

    return parse


def _field(row: Any, path: list[str]) -> str:
    value = row
    for name in path:
        if not isinstance(value, dict) or name not in value:
            raise _MalformedError(f"has no field {'.'.join(path)!r} (corpus.fields)")
        value = value[name]
    if not isinstance(value, str):
        raise _MalformedError(f"field {'.'.join(path)!r} is no text but {type(value).__name__}")
    return value
