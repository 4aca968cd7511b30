"""Stages every corpus file as plain bytes with an index of its lines; later work is divided into line ranges.

A plain file is read in place; any other is unpacked or extracted once, into the scratch folder. Lines end only at a
line feed (`str.splitlines` would also split at U+0085 and U+2028 and lose the alignment).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open
from dragoman.model.inputs.lines import View, is_in_place, line_blocks
from dragoman.model.plural import plural
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.corpus.read.sources import Source

BLOCK_LINES = 16_384  # lines per task; fixed, so that the plan never depends on the number of workers


@dataclass(frozen=True)
class Staged:
    """One corpus file, ready for reading by line range."""

    plain: Path
    lines: int
    offsets: list[int]  # bytes; the start of each block of BLOCK_LINES lines, and the end


@dataclass(frozen=True)
class StagingTask:
    """Unpacks and indexes `file`; the result is stored in `scratch` under `name`."""

    file: Path
    name: str
    scratch: Path
    view: View


@dataclass(frozen=True)
class Block:
    """A range of lines of one source: the unit of cleaning."""

    number: int  # over all sources
    source: Source
    plain: tuple[Path, ...]
    ranges: tuple[tuple[int, int], ...]  # bytes, one range per file
    first_line: int  # within the source, from 0
    lines: int


def staging_tasks(sources: Sequence[Source], scratch: Path) -> list[StagingTask]:
    """Returns one task per file."""
    folder = scratch / "plain"
    folder.mkdir(exist_ok=True)
    return [
        StagingTask(file, f"{source.name}-{side}", folder, source.views[side] if source.views else View())
        for source in sources
        for side, file in enumerate(source.files)
    ]


def stage(task: StagingTask) -> str:
    """Unpacks (if needed) and indexes one file, unless that was done before; returns the task's name."""
    index = task.scratch / f"{task.name}.json"
    if index.exists():
        return task.name
    blocks = line_blocks(task.file, task.view)
    if is_in_place(task.file, task.view):
        plain = task.file
        offsets, lines = _index(blocks)
    else:
        plain = task.scratch / f"{task.name}.txt"
        with atomic_open(plain, durable=False) as copy:
            offsets, lines = _index(_copy_blocks(blocks, copy.write))
    write_json(index, {"plain": str(plain), "lines": lines, "offsets": offsets})
    return task.name


def load_staged(source: Source, scratch: Path) -> list[Staged]:
    """Returns the staged files of a source (two for a Moses pair, else one), checked to agree."""
    sides = []
    for side, file in enumerate(source.files):
        values = read_json(scratch / "plain" / f"{source.name}-{side}.json")
        sides.append(Staged(Path(values["plain"]), values["lines"], values["offsets"]))
        if not values["lines"]:
            raise UserError(f"{source.keys[side]}: {file}: the file is empty")
    if len({side.lines for side in sides}) > 1:
        raise UserError(
            f"{source.keys[0]}: {source.files[0]} has {plural(sides[0].lines, 'line')}, but "
            f"{source.keys[1]}: {source.files[1]} has {sides[1].lines:,}; they are not line by line translations"
        )
    return sides


def blocks_of(sources: Sequence[Source], scratch: Path) -> list[Block]:
    """Returns all blocks in the corpus' order."""
    blocks: list[Block] = []
    for source in sources:
        sides = load_staged(source, scratch)
        for number in range(len(sides[0].offsets) - 1):
            first = number * BLOCK_LINES
            blocks.append(
                Block(
                    len(blocks),
                    source,
                    tuple(side.plain for side in sides),
                    tuple((side.offsets[number], side.offsets[number + 1]) for side in sides),
                    first,
                    min(BLOCK_LINES, sides[0].lines - first),
                )
            )
    return blocks


def _copy_blocks(blocks: Iterator[bytes], write: Callable[[bytes], object]) -> Iterator[bytes]:
    for block in blocks:
        write(block)
        yield block


def _index(blocks: Iterator[bytes]) -> tuple[list[int], int]:
    """Returns the byte offsets of every BLOCK_LINES-th line (and the end), and the number of lines."""
    offsets, lines, size, last = [0], 0, 0, b"\n"
    for block in blocks:
        feeds = block.count(b"\n")
        if (lines + feeds) // BLOCK_LINES > lines // BLOCK_LINES:
            places = np.flatnonzero(np.frombuffer(block, np.uint8) == 0x0A)
            for line in range((lines // BLOCK_LINES + 1) * BLOCK_LINES, lines + feeds + 1, BLOCK_LINES):
                offsets.append(size + int(places[line - lines - 1]) + 1)
        lines += feeds
        size += len(block)
        last = block[-1:]
    if last != b"\n":  # a last line without a line feed is a line
        lines += 1
    if offsets[-1] != size:
        offsets.append(size)
    return offsets, lines
