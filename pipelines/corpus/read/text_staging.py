"""Stages text files as plain bytes with an index of blocks, like `staging` for parallel files, for text of any shape.

A block ends at the end of a line, or at white space within a line that is longer than a block. So at most one block is
in memory, however long the lines are. Archives become one plain file, member after member.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.files import atomic_open
from dragoman.model.inputs.archive import Part
from dragoman.model.inputs.lines import View, is_in_place, parts_of
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import Block

BLOCK_BYTES = 2 << 20  # most bytes of a block
BLOCK_LINES = 65_536  # most lines of a block: very short lines take much more memory than their bytes
_LINE = 1 << 16  # bytes of a line to process together


@dataclass(frozen=True)
class TextStagingTask:
    """Unpacks and indexes one file of `source`; the result is stored in `scratch` under the source's name."""

    source: Source
    scratch: Path
    paragraphs: bool
    between: tuple[str, ...]  # beginnings of the lines before and after the part to keep; or empty


def text_staging_tasks(
    sources: Sequence[Source], scratch: Path, paragraphs: bool, between: Sequence[str]
) -> list[TextStagingTask]:
    """Returns one task per file."""
    folder = scratch / "plain"
    folder.mkdir(exist_ok=True)
    return [TextStagingTask(source, folder, paragraphs, tuple(between)) for source in sources]


def stage_text(task: TextStagingTask) -> str:
    """Unpacks (if needed) and indexes one file, unless that was done before; returns the source's name."""
    name, file = task.source.name, task.source.files[0]
    if index_path(task.scratch, name).exists():
        return name
    view = task.source.views[0] if task.source.views else View()
    parts = parts_of(file, view)
    in_place = not task.between and is_in_place(file, view)
    plain = file if in_place else task.scratch / f"{name}.txt"
    index = _Index(task.paragraphs)
    begins: list[tuple[int, str, int]] = []
    with ExitStack() as stack:
        write = (lambda _: None) if in_place else stack.enter_context(atomic_open(plain, durable=False)).write
        for part in parts:
            skipped, blocks = kept_between(part, task.between)
            begins.append((index.lines, part.name, skipped))
            for data in blocks:
                write(data)
                index.add(data)
            if len(parts) > 1:  # the next member starts on a new line, and a new paragraph
                end = (b"" if index.ended else b"\n") + (b"\n" if task.paragraphs else b"")
                write(end)
                index.add(end)
    index.finish()
    values = {"plain": str(plain), "offsets": index.offsets, "first_lines": index.first_lines, "parts": begins}
    write_json(index_path(task.scratch, name), values)
    return name


def text_blocks(sources: Sequence[Source], scratch: Path) -> list[Block]:
    """Returns all blocks in the corpus' order; an empty file has none."""
    blocks: list[Block] = []
    for source in sources:
        values = read_json(index_path(scratch / "plain", source.name))
        plain, offsets, lines = (Path(values["plain"]),), values["offsets"], values["first_lines"]
        for start, stop, first, after in zip(offsets[:-1], offsets[1:], lines[:-1], lines[1:], strict=True):
            blocks.append(Block(len(blocks), source, plain, ((start, stop),), first, after - first))
    return blocks


def place_of(block: Block, line: int, scratch: Path) -> str:
    """Returns file, member and line number (from 1) of a line in a block, for messages."""
    values = read_json(index_path(scratch / "plain", block.source.name))
    begins: list[Any] = values["parts"]
    number = block.first_line + line
    first, name, skipped = begins[bisect_right([begin[0] for begin in begins], number) - 1]
    member = f": {name}" if name else ""
    return f"{block.source.files[0]}{member}: line {number - first + skipped + 1}"


def kept_between(part: Part, between: Sequence[str]) -> tuple[int, Iterable[bytes]]:
    """Returns the number of lines skipped at the start, and the bytes after the line that matches the first of
    `between`.

    They end at the first line that matches the second. If no line matches the first, everything is kept. Spaces in the
    two are ignored.
    """
    if not between:
        return 0, part.blocks()
    start, *end = (_compile_beginning(text) for text in between)
    skipped = 0
    for line, opening in _lines(part.blocks()):
        skipped += opening
        if opening and start.match(line):
            return skipped, _from_line(part, skipped, end[0] if end else None)
    return 0, part.blocks()


def _from_line(part: Part, first: int, end: re.Pattern[bytes] | None) -> Iterator[bytes]:
    number = 0
    for line, opening in _lines(part.blocks()):
        number += opening
        if number <= first:
            continue
        if opening and end is not None and end.match(line):
            return
        yield line


def _compile_beginning(text: str) -> re.Pattern[bytes]:
    signs = (re.escape(sign.encode()) for sign in text if not sign.isspace())
    return re.compile(rb"(?:\xef\xbb\xbf)?\s*" + rb"\s*".join(signs))


def _lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yields lines with their line feeds, a long one in several pieces, and whether each starts a line."""
    rest, opening = b"", True
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n", opening
            opening = True
        if len(rest) > _LINE:
            yield rest, opening
            rest, opening = b"", False
    if rest:
        yield rest, opening


def index_path(folder: Path, name: str) -> Path:
    """Returns the path of a source's index."""
    return folder / f"{name}.json"


class _Index:
    """The starts of blocks, found in the bytes of a text; the split of the bytes into pieces has no effect."""

    def __init__(self, paragraphs: bool) -> None:
        self.paragraphs = paragraphs
        self.offsets, self.first_lines = [0], [0]
        self.lines = 0  # line feeds so far
        self.ended = True  # the last byte was a line feed
        self._waiting = bytearray()

    def add(self, data: bytes) -> None:
        if not data:
            return
        self._waiting += data
        self.lines += data.count(b"\n")
        self.ended = data.endswith(b"\n")
        while len(self._waiting) > BLOCK_BYTES:
            self._cut(self._stop)

    def finish(self) -> None:
        while self._waiting:
            self._cut(self._last_stop)
        if not self.ended:  # a last line without a line feed is a line
            self.first_lines[-1] += 1

    def _cut(self, stop_of: Callable[[bytes], tuple[int, int]]) -> None:
        stop, lines = stop_of(bytes(self._waiting[:BLOCK_BYTES]))
        del self._waiting[:stop]
        self.offsets.append(self.offsets[-1] + stop)
        self.first_lines.append(self.first_lines[-1] + lines)

    def _last_stop(self, window: bytes) -> tuple[int, int]:
        lines = window.count(b"\n")
        return self._stop(window) if lines > BLOCK_LINES else (len(window), lines)

    def _stop(self, window: bytes) -> tuple[int, int]:
        """Returns the end of the window's first block, and its line feeds."""
        feeds = np.flatnonzero(np.frombuffer(window, np.uint8) == 0x0A)[:BLOCK_LINES]
        if len(feeds):
            stop = int(feeds[-1]) + 1
            if self.paragraphs:
                blank = max(window.rfind(b"\n\n", 0, stop) + 2, window.rfind(b"\n\r\n", 0, stop) + 3)
                stop = blank if blank > 2 else stop
            return stop, int(np.searchsorted(feeds, stop))
        space = max(window.rfind(b" "), window.rfind(b"\t")) + 1
        return space or _complete_length(window), 0


def _complete_length(window: bytes) -> int:
    """Returns the length of `window` without an incomplete UTF-8 character at its end."""
    stop = len(window)
    while stop > len(window) - 4 and window[stop - 1] & 0xC0 == 0x80:
        stop -= 1
    return (stop - 1 if window[stop - 1] >= 0xC0 else 0) or len(window)
