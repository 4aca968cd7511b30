"""A piece of an attempt's log in whole lines, as a page shows it, and the error near its end."""

import re
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.untrusted import open_regular

PIECE = 48 * 1024  # bytes
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")
END = 1 << 20  # bytes at the end of a log in which an error is looked for
LONGEST = 300  # characters of its message
TRACEBACK = "Traceback (most recent call last)"
MARK = re.compile(re.escape(TRACEBACK) + "|Error: |ERROR|CRITICAL|FATAL|panic: ")
WORKER = re.compile(r"\(\w+ pid=\d+[^)]*\) ")  # Ray's name of the process before its line
ENDED = re.compile(r"dragoman( \w+)?: .+")  # the last line of a command that says why it ends


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


def error_of(path: Path) -> str:
    """Returns the first error in the last MiB of a log: its line, or what a traceback ends with; empty: there is none.

    Without one it is the last line, if the command says in it why it ends.
    """
    try:
        with open_regular(path) as file:
            file.seek(max(0, file.seek(0, 2) - END))
            lines = clean(file.read(END).decode("utf-8", "replace")).rstrip("\n").split("\n")
    except OSError:
        return ""
    place = next((number for number, line in enumerate(lines) if MARK.search(line)), None)
    if place is None:
        return lines[-1][:LONGEST] if ENDED.fullmatch(lines[-1]) else ""
    message, *after = [WORKER.sub("", line) for line in lines[place:]]
    if TRACEBACK in message:  # the line after its frames says what went wrong
        message = next((line for line in after if line.strip() and not line[0].isspace()), message)
    return message.strip()[:LONGEST]
