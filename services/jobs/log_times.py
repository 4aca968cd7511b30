"""When the lines of a log came, in a file beside it: the log itself stays what the command has written.

A row is `OFFSET SECONDS`, both of fixed width: the bytes before OFFSET were there at that time, in seconds since 1970.
There is at most one row a second, so a time may be a second late.
"""

import bisect
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from dragoman.model.untrusted import open_regular

PACE = 1.0  # seconds between two rows
WIDTH = 28  # bytes of a row: 15 and 11 digits, a blank and a line feed
MOST = 100_000  # rows read for a piece of a log


class Stamps:
    """Writes the rows of one log."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._at, self._offset = -PACE, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def note(self, offset: int, last: bool = False) -> None:
        """Notes that the log has `offset` bytes now; `last`: it will have no more."""
        now = time.monotonic()
        if offset > self._offset and (last or now - self._at >= PACE):
            self._at, self._offset = now, offset
            self._file.write(f"{offset:015d} {time.time():011.0f}\n".encode())


def read_times(path: Path, offsets: Sequence[int]) -> list[float | None]:
    """Returns the times at which the bytes at these offsets, in ascending order, were there; None: nobody noted it."""
    found: list[float | None] = []
    try:
        with open_regular(path) as file:

            def row(number: int) -> tuple[int, float]:
                file.seek(number * WIDTH)
                offset, _, at = file.read(WIDTH).decode("ascii").partition(" ")
                return int(offset), float(at)

            count = file.seek(0, 2) // WIDTH
            number = bisect.bisect_right(range(count), offsets[0], key=lambda one: row(one)[0]) if offsets else 0
            first, at = number, 0.0
            end = -1
            for offset in offsets:
                while end <= offset and number < min(count, first + MOST):
                    (end, at), number = row(number), number + 1
                found.append(at if end > offset else None)
    except (OSError, ValueError):  # a log from before, or a damaged file
        pass
    return found + [None] * (len(offsets) - len(found))
