"""The blocks of text of any shape, and the part of a file that is kept.

A block ends at the end of a line, or at white space within a line that is longer than a block. So at most one block is
in memory, however long the lines are.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from dragoman.model.inputs.archive import Part

BLOCK_BYTES = 2 << 20  # most bytes of a block
BLOCK_LINES = 65_536  # most lines of a block: very short lines take much more memory than their bytes
_LINE = 1 << 16  # bytes of a line to process together


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


class TextIndex:
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
