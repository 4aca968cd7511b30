"""A piece of an attempt's log in whole lines, as a page shows it."""

import re
from dataclasses import dataclass

PIECE = 48 * 1024  # bytes
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")


@dataclass(frozen=True)
class Piece:
    """`text` is what the bytes from `start` to `end` are; `size` is the log's."""

    text: str
    start: int
    end: int
    size: int


def cut(block: bytes, start: int, whole: bool) -> tuple[str, int]:
    """(text, its end) of the whole lines of a block; a line without its end waits, unless `whole` or it is the block.

    Of a line that was written over (progress bars) only the last is shown.
    """
    end = block.rfind(b"\n") + 1
    if not end or whole:
        end = len(block)
    return clean(block[:end].decode("utf-8", "replace")), start + end


def clean(text: str) -> str:
    """Without terminal colours and what was written over."""
    lines = ESCAPES.sub("", text.replace("\r\n", "\n")).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
