"""Searches a log for a text, a bounded part of it at a time."""

from dataclasses import dataclass, field
from itertools import accumulate

from dragoman.model.untrusted import open_regular
from dragoman.services.jobs.service.log_index import BLOCK, LogIndex
from dragoman.services.jobs.service.logs import ESCAPE_BYTES

MOST = 200  # lines found at a time
SCAN = 128 << 20  # bytes read at a time
LONGEST = 2000  # bytes shown of a line


@dataclass(frozen=True)
class Found:
    """The lines found, each with its number, and the line at which the search goes on; None at the end of the log."""

    lines: list[tuple[int, str]]
    following: int | None
    offsets: list[int] = field(default_factory=list)  # of the beginnings of these lines


def search(index: LogIndex, text: str, first: int = 1) -> Found:
    """Returns the lines from number `first` on that hold `text`; A to Z equal a to z, and colours do not count.

    Raises:
        OSError: the log cannot be read.
    """
    wanted, found, number = text.encode("utf-8", "replace").lower(), list[tuple[int, str]](), first
    start, offsets = index.offset_of(first), list[int]()
    with open_regular(index.path) as file:
        file.seek(start)
        while block := file.read(BLOCK):
            block += file.readline(16 * BLOCK)  # so that it ends with a line
            raw, top, begins = block, number, list[int]()
            if b"\x1b" in block:
                block = ESCAPE_BYTES.sub(b"", block)
            low, place, counted = block.lower(), 0, 0
            while (at := low.find(wanted, place)) >= 0:
                begin, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
                place = len(block) if end < 0 else end + 1
                number, counted = number + block.count(b"\n", counted, begin), begin
                found.append((number, block[begin:place][:LONGEST].decode("utf-8", "replace").rstrip()))
                if not begins:
                    lengths = (len(one) + 1 for one in raw.split(b"\n"))
                    begins = list(accumulate(lengths, initial=file.tell() - len(raw)))
                offsets.append(begins[number - top])
                if len(found) == MOST:
                    return Found(found, number + 1, offsets)
            number += block.count(b"\n", counted)
            if file.tell() - start >= SCAN:
                return Found(found, number, offsets)
    return Found(found, None, offsets)
