"""Reads small files that somebody else writes and may have torn. A command that cannot go on without one calls
`read_json`, which names file and line. For a service every read is bounded, never blocks, and notes what is damaged.

Notes are phrases for people that begin with the file's name: "run.json is damaged".
"""

import errno
import io
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError

OBJECT = 4 << 20  # bytes of a file with one JSON object
WHOLE = 2**31 - 1  # largest step or count that the ledger's columns hold


def open_regular(path: Path) -> io.BufferedReader:
    """Opens a regular file for reading, through links too.

    Raises OSError: it does not exist, or is a folder, a pipe or a device.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # opening a device may have effects
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # replaced in the meantime
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_object(path: Path, notes: list[str] | None = None) -> dict[str, Any]:
    """Returns the object of a JSON file; empty if it is missing or damaged, which is noted.

    Numbers that JSON does not have (NaN, infinity) become None, and every text can be written as UTF-8.
    """
    notes = [] if notes is None else notes
    try:
        with open_regular(path) as file:
            text = file.read(OBJECT + 1)
        if len(text) > OBJECT:
            notes.append(f"{path.name} is larger than {OBJECT >> 20} MiB")
            return {}
        value = json.loads(text, parse_constant=lambda _: None, parse_float=lambda number: finite(float(number)))
        json.dumps(value, ensure_ascii=False).encode()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as problem:
        notes.append(f"{path.name} cannot be read ({problem.strerror or problem})")
        return {}
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        notes.append(f"{path.name} is damaged")
        return {}
    return value


def read_json(path: Path, remedy: str = "") -> dict[str, Any] | None:
    """Returns the object in a JSON file; None where there is no file."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as problem:
        raise UserError(f"{path}: damaged ({problem}). {remedy}".rstrip()) from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: damaged (no object). {remedy}".rstrip())
    return value


def read_word(path: Path) -> str | None:
    """Returns the text of a file of one word; None if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(64).decode("ascii", "replace").strip()
    except OSError:
        return None


def finite(value: Any) -> float | None:
    """Returns a finite number; None for strings, booleans, NaN, infinity and numbers beyond a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def whole(value: Any, most: int = WHOLE) -> int | None:
    """Returns a whole number from 0 to `most`; None for everything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None
