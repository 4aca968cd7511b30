"""Stages every corpus file as plain bytes with an index of its blocks: ranges of lines, the units of later work.

A plain file is read in place; any other is unpacked or extracted once, into the scratch folder. An archive of texts
becomes one plain file, member after member. Lines end only at a line feed (`str.splitlines` would also split at U+0085
and U+2028 and lose the alignment).
"""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open
from dragoman.model.inputs.archive import Part
from dragoman.model.inputs.lines import is_in_place, line_blocks, parts_of
from dragoman.model.plural import plural
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.corpus.read.sources import Source, TextForm
from dragoman.pipelines.corpus.read.text_blocks import TextIndex, kept_between

BLOCK_LINES = 16_384  # lines of pairs per task; fixed, so that the plan never depends on the number of workers

Member = tuple[
    int, str, int
]  # of an archive: its first line in the source, its name, the lines of it that are left out


@dataclass(frozen=True)
class StagingTask:
    """Unpacks and indexes one file of `source`; the result is stored in `folder`."""

    source: Source
    side: int
    folder: Path

    @property
    def index(self) -> Path:
        """Returns the file of the index."""
        return self.folder / f"{self.source.name}-{self.side}.json"


@dataclass(frozen=True)
class Block:
    """A range of lines of one source: the unit of cleaning."""

    number: int  # over all sources
    source: Source
    plain: tuple[Path, ...]
    ranges: tuple[tuple[int, int], ...]  # bytes, one range per file
    first_line: int  # within the source, from 0
    lines: int
    members: tuple[Member, ...] = ((0, "", 0),)  # those that lie in the block

    def read(self, side: int = 0) -> bytes:
        """Returns the block's bytes in one file."""
        start, stop = self.ranges[side]
        with self.plain[side].open("rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def locate(self, line: int, side: int = 0) -> str:
        """Returns file, member and line number (from 1) of a line in the block, for messages."""
        number = self.first_line + line
        first, name, skipped = self.members[bisect_right([member[0] for member in self.members], number) - 1]
        return f"{self.source.files[side]}{name and f': {name}'}: line {number - first + skipped + 1}"


def staging_tasks(sources: Sequence[Source], scratch: Path) -> list[StagingTask]:
    """Returns one task per file."""
    folder = scratch / "plain"
    folder.mkdir(exist_ok=True)
    return [StagingTask(source, side, folder) for source in sources for side in range(len(source.files))]


def stage(task: StagingTask) -> None:
    """Unpacks (if needed) and indexes one file, unless that was done before."""
    if task.index.exists():
        return
    file, view, form = task.source.files[task.side], task.source.view(task.side), task.source.form
    parts = [Part("", lambda: line_blocks(file, view))] if form is None else parts_of(file, view)
    index, form = LineIndex() if form is None else TextIndex(form.paragraphs), form or TextForm()
    in_place = not form.between and is_in_place(file)
    plain = file if in_place else task.index.with_suffix(".txt")
    members: list[Member] = []
    with ExitStack() as stack:
        write = (lambda _: None) if in_place else stack.enter_context(atomic_open(plain, durable=False)).write
        for part in parts:
            skipped, blocks = kept_between(part, form.between)
            members.append((index.lines, part.name, skipped))
            for data in blocks:
                write(data)
                index.add(data)
            if len(parts) > 1:  # the next member starts on a new line, and a new paragraph
                end = (b"" if index.ended else b"\n") + (b"\n" if form.paragraphs else b"")
                write(end)
                index.add(end)
    index.finish()
    values = {"plain": str(plain), "offsets": index.offsets, "first_lines": index.first_lines, "members": members}
    write_json(task.index, values)


def blocks_of(sources: Sequence[Source], scratch: Path) -> list[Block]:
    """Returns all blocks in the corpus' order; an empty file of text has none."""
    blocks: list[Block] = []
    for source in sources:
        sides = [read_json(task.index) for task in staging_tasks([source], scratch)]
        if source.form is None:
            _check_lines(source, [side["first_lines"][-1] for side in sides])
        plain, members = tuple(Path(side["plain"]) for side in sides), sides[0]["members"]
        firsts = [member[0] for member in members]
        for number, (first, after) in enumerate(pairwise(sides[0]["first_lines"])):
            ranges: Any = tuple(tuple(side["offsets"][number : number + 2]) for side in sides)
            inside = members[bisect_right(firsts, first) - 1 : bisect_right(firsts, after)]
            blocks.append(Block(len(blocks), source, plain, ranges, first, after - first, tuple(map(tuple, inside))))
    return blocks


def _check_lines(source: Source, lines: Sequence[int]) -> None:
    for key, file, number in zip(source.keys, source.files, lines, strict=True):
        if not number:
            raise UserError(f"{key}: {file}: the file is empty")
    if len(set(lines)) > 1:
        raise UserError(
            f"{source.keys[0]}: {source.files[0]} has {plural(lines[0], 'line')}, but "
            f"{source.keys[1]}: {source.files[1]} has {lines[1]:,}; they are not line by line translations"
        )


class LineIndex:
    """The starts of blocks of BLOCK_LINES lines, found in the bytes of a file."""

    def __init__(self) -> None:
        self.offsets, self.lines, self.ended = [0], 0, True
        self._size = 0

    def add(self, data: bytes) -> None:
        feeds = data.count(b"\n")
        if (self.lines + feeds) // BLOCK_LINES > self.lines // BLOCK_LINES:
            positions = np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A)
            for line in range((self.lines // BLOCK_LINES + 1) * BLOCK_LINES, self.lines + feeds + 1, BLOCK_LINES):
                self.offsets.append(self._size + int(positions[line - self.lines - 1]) + 1)
        self.lines += feeds
        self._size += len(data)
        self.ended = data.endswith(b"\n")

    def finish(self) -> None:
        self.lines += not self.ended  # a last line without a line feed is a line
        if self.offsets[-1] != self._size:
            self.offsets.append(self._size)

    @property
    def first_lines(self) -> list[int]:
        """Returns the first line of each block, and the end."""
        return [min(number * BLOCK_LINES, self.lines) for number in range(len(self.offsets))]
