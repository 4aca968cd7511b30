"""The only reader of a run's files of JSON lines: its journal, and its small ones (`model/runs/journal.py`).

Another process may be writing them, or have torn them. So a damaged line is skipped and noted, with its number.
"""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.model.plural import plural
from dragoman.model.runs.paths import STEPS
from dragoman.model.untrusted import finite, open_regular, whole

JOURNAL = 32 << 20  # newest bytes of a journal that a service reads
LINE = 1 << 20  # bytes of one line
BLOCK = 1 << 20  # bytes of one read
TAIL = 65_536  # bytes at the end that are searched for the last line
SECONDS = 1e12


class JournalReader:
    """Reads a file that may still grow: every call of `lines` continues where the last one ended.

    A line is an object; one of the journal has a whole `step`, and where it has `seconds` and `tokens` they are
    numbers. Other lines are left out and noted.
    """

    def __init__(self, path: Path, most: int | None = JOURNAL) -> None:
        """`most`: of a larger file only so many of the newest bytes are read; None: all."""
        self.path = path
        self.offset = 0  # of the first unread byte
        self.number: int | None = 0  # of the line that `lines` yields; None: the lines before it were not counted
        self._most = most
        self._file: int | None = None  # its inode
        self._unfinished = b""
        self._damaged, self._first = 0, ""
        self._part = self._unreadable = ""

    @property
    def notes(self) -> list[str]:
        """Returns the problems found in the journal so far."""
        damaged = f"{self._first} is damaged" if self._damaged else ""
        if self._damaged > 1:
            damaged = f"has {plural(self._damaged, 'damaged line')}, the first is {self._first}"
        return [f"{self.path.name} {note}" for note in (self._unreadable, self._part, damaged) if note]

    def is_replaced(self) -> bool:
        """Returns True if another file has replaced the one that was read, and a new reader is needed.

        A resumed run cuts its journal back to its checkpoint.
        """
        try:
            status = self.path.stat()
        except OSError:
            return False
        return self._file is not None and (status.st_ino != self._file or status.st_size < self.offset)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yields the new complete lines; a last line without its end is still being written."""
        self._unreadable = ""
        try:
            with open_regular(self.path) as file:
                status = os.fstat(file.fileno())
                size, self._file = status.st_size, self._file or status.st_ino
                if status.st_ino != self._file:
                    return  # replaced
                if self._most is not None and size - self.offset > self._most:
                    self._skip_to(file, size - self._most)
                file.seek(self.offset)
                while self.offset < size and (block := file.read(min(BLOCK, size - self.offset))):
                    self.offset += len(block)
                    yield from self._take(block)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as problem:
            self._unreadable = f"cannot be read ({problem.strerror or problem})"

    def _skip_to(self, file: io.BufferedReader, start: int) -> None:
        """Moves to the first whole line after the byte `start`."""
        file.seek(start)
        self.offset = start + len(file.readline(LINE))
        self.number, self._unfinished = None, b""
        self._part = f"is larger than {(self._most or 0) >> 20} MiB: only its newest part is read"

    def _take(self, block: bytes) -> Iterator[dict[str, Any]]:
        *ended, self._unfinished = (self._unfinished + block).split(b"\n")
        left = len(self._unfinished) + sum(len(line) + 1 for line in ended)  # bytes until the offset
        for line in ended:
            left -= len(line) + 1
            if self.number is not None:
                self.number += 1
            record = parse_line(line, self.path.name) if len(line) <= LINE else None
            if record is not None:
                yield record
            elif line.strip():
                self._damaged += 1
                place = (
                    f"line {self.number}" if self.number is not None else f"the line before byte {self.offset - left:,}"
                )
                self._first = self._first or place
        self._unfinished = self._unfinished[: LINE + 1]  # a longer line is noted at its end; its rest is not kept


def trained_seconds(run: Path) -> float | None:
    """Returns the seconds of training in the last whole line of the journal; None if there is none."""
    try:
        with open_regular(run / STEPS) as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    for line in reversed(lines):
        record = parse_line(line)  # the first one is cut, and others may be damaged
        if record is not None and "seconds" in record:
            return float(record["seconds"])
    return None


def parse_line(text: bytes, name: str = STEPS) -> dict[str, Any] | None:
    """Returns a line of the file `name`; None where it is damaged."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or (name == STEPS and whole(record.get("step")) is None):
        return None
    seconds, tokens = finite(record.get("seconds", 0.0)), whole(record.get("tokens", 0))
    return record if seconds is not None and 0 <= seconds <= SECONDS and tokens is not None else None
