"""Finds lines of a log by number, and its first error; each look reads only what was added.

A log may have gigabytes: kept are the number of lines before every block, and where the first error is.
"""

import bisect
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from dragoman.model.untrusted import open_regular
from dragoman.services.jobs.service.logs import clean

BLOCK = 1 << 20  # bytes
KEPT = 64  # logs kept in memory
LONGEST = 300  # characters of a message
END = 64 * 1024  # bytes after a traceback, or at the end of a log, in which a message stands
TRACEBACK = b"Traceback (most recent call last)"
MARKS = (TRACEBACK, b"Error: ", b"ERROR", b"CRITICAL", b"FATAL", b"panic: ")
OVERLAP = max(map(len, MARKS))  # a mark may lie across two blocks
WORKER = re.compile(r"\(\w+ pid=\d+[^)]*\) ")  # Ray's name of the process before its line
ENDED = re.compile(r"dragoman( \w+)?: .+")  # the last line of a command that says why it ends


@dataclass(frozen=True)
class FirstError:
    """The first error of a log: the number of its line, from 1, and its message."""

    line: int
    text: str


@dataclass
class LogIndex:
    """The index of one log."""

    path: Path
    before: list[int] = field(default_factory=lambda: [0])  # lines before each whole block, and after the last one
    error: int | None = None  # byte of the first mark
    searched: int = 0  # bytes in which there is no mark before `error`
    lock: threading.Lock = field(default_factory=threading.Lock)

    def lines(self) -> int:
        """Returns the number of lines, an unfinished one included. Raises OSError if the log cannot be read."""
        with self.lock, open_regular(self.path) as file:
            return self._count(file, self._extend(file))

    def line_of(self, offset: int) -> int:
        """Returns the number, from 1, of the line that holds a byte. Raises OSError as above."""
        with self.lock, open_regular(self.path) as file:
            self._extend(file)
            return self._line_of(file, offset)

    def offset_of(self, line: int) -> int:
        """Returns the first byte of a line; the size of the log if it has less. Raises OSError as above."""
        with self.lock, open_regular(self.path) as file:
            size = self._extend(file)
            block = max(0, bisect.bisect_left(self.before, line - 1) - 1)
            file.seek(block * BLOCK)
            content, place = file.read(BLOCK), 0
            for _ in range(line - 1 - self.before[block]):
                place = content.find(b"\n", place) + 1
                if not place:
                    return size
            return block * BLOCK + place

    def first_error(self) -> FirstError | None:
        """Returns the first error; None if there is none, or the log cannot be read."""
        try:
            with self.lock, open_regular(self.path) as file:
                size = self._extend(file)
                if self.error is None:
                    self._search(file, size)
                return self._message(file) if self.error is not None else self._ending(file, size)
        except OSError:
            return None

    def _extend(self, file: BinaryIO) -> int:
        """Counts the lines of the blocks that are whole now; returns the log's size."""
        size = file.seek(0, 2)
        file.seek((len(self.before) - 1) * BLOCK)
        while len(self.before) * BLOCK <= size:
            self.before.append(self.before[-1] + file.read(BLOCK).count(b"\n"))
        return size

    def _count(self, file: BinaryIO, size: int) -> int:
        file.seek(max(0, size - 1))
        unfinished = file.read(1) not in (b"", b"\n")
        return self._line_of(file, size) - 1 + unfinished

    def _line_of(self, file: BinaryIO, offset: int) -> int:
        block = min(offset // BLOCK, len(self.before) - 1)
        file.seek(block * BLOCK)
        return self.before[block] + file.read(offset - block * BLOCK).count(b"\n") + 1

    def _search(self, file: BinaryIO, size: int) -> None:
        while self.error is None and self.searched < size:
            start = max(0, self.searched - OVERLAP)
            file.seek(start)
            block = file.read(BLOCK)
            places = [place for mark in MARKS if (place := block.find(mark)) >= 0]
            self.error = start + min(places) if places else None
            self.searched = start + len(block)

    def _message(self, file: BinaryIO) -> FirstError:
        """Returns the line of the mark; of a traceback the line after its frames, which says what went wrong."""
        assert self.error is not None
        start = max(0, self.error - END)
        file.seek(start)
        block = file.read(self.error - start + END)
        begin = block.rfind(b"\n", 0, self.error - start) + 1
        line = self._line_of(file, start + begin)
        lines = [WORKER.sub("", one) for one in clean(block[begin:].decode("utf-8", "replace")).split("\n")]
        told = lines[0]
        if TRACEBACK.decode() in told:
            told = next((one for one in lines[1:] if one.strip() and not one[0].isspace()), told)
        return FirstError(line, told.strip()[:LONGEST])

    def _ending(self, file: BinaryIO, size: int) -> FirstError | None:
        """Returns the last line if the command says in it why it ends."""
        start = max(0, size - END)
        file.seek(start)
        lines = clean(file.read(END).decode("utf-8", "replace")).rstrip("\n").split("\n")
        if not ENDED.fullmatch(lines[-1]):
            return None
        return FirstError(self._count(file, size), lines[-1][:LONGEST])


class LogIndexes:
    """The indexes of the logs that were looked at last."""

    def __init__(self) -> None:
        self._known: OrderedDict[Path, LogIndex] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, path: Path) -> LogIndex:
        """Returns the index of a log."""
        with self._lock:
            index = self._known.pop(path, None) or LogIndex(path)
            self._known[path] = index
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return index
