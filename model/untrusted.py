"""Reading the files of jobs and runs. Somebody else writes them and may have torn them, so every read is bounded, never
blocks, and notes which file and line is damaged instead of raising.

Notes are phrases for people that begin with the file's name: "steps.jsonl line 12 is damaged".
"""

import errno
import io
import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OBJECT = 4 << 20  # bytes of a file with one JSON object
JOURNAL = 32 << 20  # newest bytes of a journal that are read
LINE = 1 << 20  # bytes of one line of a journal
BLOCK = 1 << 20  # bytes of one read
WHOLE = 2**31 - 1  # largest step or count: the ledger's columns hold no more
SECONDS = 1e12


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading, through links too.

    Raises:
        OSError: there is none, or something else stands in its place: a folder, a pipe, a device.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # opening a device may already do something
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # exchanged meanwhile
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_object(path: Path, notes: list[str] | None = None) -> dict[str, Any]:
    """Return the object of a JSON file; empty where there is none, or it is damaged, which is noted.

    Numbers that JSON does not know (NaN, infinity) are None in it, and every text can be written as UTF-8.
    """
    notes = [] if notes is None else notes
    try:
        with open_regular(path) as file:
            text = file.read(OBJECT + 1)
        if len(text) > OBJECT:
            notes.append(f"{path.name} is larger than {OBJECT >> 20} MiB")
            return {}
        found = json.loads(text, parse_constant=lambda _: None, parse_float=_finite_or_none)
        json.dumps(found, ensure_ascii=False).encode()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as problem:
        notes.append(f"{path.name} cannot be read ({problem.strerror or problem})")
        return {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        notes.append(f"{path.name} is damaged")
        return {}
    return found


def read_word(path: Path, limit: int = 64) -> str | None:
    """Return the text of a file of one word; None where it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(limit).decode("ascii", "replace").strip()
    except OSError:
        return None


def finite(value: Any) -> float | None:
    """Return a number that is one; None for texts, truth values, NaN, infinity and what no float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def whole(value: Any, most: int = WHOLE) -> int | None:
    """Return a whole number from 0 to `most`; None for everything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def step_of(name: str) -> int:
    """Return the step in a checkpoint's name, `step-00000120`; 0 where there is none."""
    number = name.removeprefix("step-")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0


class JournalReader:
    """Reads a journal that may still grow: every call of `lines` goes on where the last one ended.

    A line is an object with a whole `step`; where it has `seconds` and `tokens` they are numbers. Other lines are left
    out and noted. Of a journal that is larger than JOURNAL only the newest part is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0  # of the first byte that was not read
        self._number: int | None = 0  # lines before it; None: nobody counted them
        self._unfinished = b""
        self._damaged, self._first = 0, ""
        self._part = self._unreadable = ""

    @property
    def notes(self) -> list[str]:
        """What is wrong with the journal as far as it was read."""
        damaged = f"{self._first} is damaged" if self._damaged else ""
        if self._damaged > 1:
            damaged = f"has {self._damaged:,} damaged lines, the first is {self._first}"
        return [f"{self.path.name} {note}" for note in (self._unreadable, self._part, damaged) if note]

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the whole lines that are new; a last one without its end is still being written."""
        self._unreadable = ""
        try:
            with open_regular(self.path) as file:
                size = os.fstat(file.fileno()).st_size
                if size - self.offset > JOURNAL:
                    self._skip_to(file, size - JOURNAL)
                file.seek(self.offset)
                while self.offset < size and (block := file.read(min(BLOCK, size - self.offset))):
                    self.offset += len(block)
                    yield from self._take(block)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as problem:
            self._unreadable = f"cannot be read ({problem.strerror or problem})"

    def _skip_to(self, file: io.BufferedReader, start: int) -> None:
        """Go on at the first whole line after the byte `start`."""
        file.seek(start)
        self.offset = start + len(file.readline(LINE))
        self._number, self._unfinished = None, b""
        self._part = f"is larger than {JOURNAL >> 20} MiB: only its newest part is read"

    def _take(self, block: bytes) -> Iterator[dict[str, Any]]:
        *ended, self._unfinished = (self._unfinished + block).split(b"\n")
        left = len(self._unfinished) + sum(len(line) + 1 for line in ended)  # bytes until the offset
        for line in ended:
            left -= len(line) + 1
            if self._number is not None:
                self._number += 1
            found = parse_line(line) if len(line) <= LINE else None
            if found is not None:
                yield found
            elif line.strip():
                self._damaged += 1
                place = (
                    f"line {self._number}"
                    if self._number is not None
                    else f"the line before byte {self.offset - left:,}"
                )
                self._first = self._first or place
        self._unfinished = self._unfinished[: LINE + 1]  # a longer one is noted at its end, and not kept until then


def parse_line(text: bytes) -> dict[str, Any] | None:
    """Return a line of a journal; None where it is damaged."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or whole(found.get("step")) is None:
        return None
    seconds, tokens = finite(found.get("seconds", 0.0)), whole(found.get("tokens", 0))
    return found if seconds is not None and 0 <= seconds <= SECONDS and tokens is not None else None


def _finite_or_none(text: str) -> float | None:
    return finite(float(text))
