"""A piece of an attempt's log in whole lines, as a page shows it."""

import re
from dataclasses import dataclass

PIECE = 48 * 1024  # bytes
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")
ESCAPE_BYTES = re.compile(ESCAPES.pattern.encode())


@dataclass(frozen=True)
class Piece:
    """`text` is the text of the bytes from `start` to `end`; `size` is the whole log's."""

    text: str
    start: int
    end: int
    size: int


def cut(block: bytes, start: int, whole: bool) -> tuple[str, int]:
    """Returns (text, its end) of the whole lines in a block; an unfinished line waits, unless `whole` or alone.

    Of a line that was overwritten (progress bars) only the last version is shown.
    """
    end = block.rfind(b"\n") + 1
    if not end or whole:
        end = len(block)
    return clean(block[:end].decode("utf-8", "replace")), start + end


def clean(text: str) -> str:
    """Removes terminal colours and overwritten text."""
    lines = ESCAPES.sub("", text.replace("\r\n", "\n")).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
