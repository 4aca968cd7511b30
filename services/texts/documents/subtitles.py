"""Subtitles, .srt and .vtt: the lines under a time. Numbers, times, settings, styles and notes stay as they are.

The libraries for subtitles write them anew, without the settings and notes of WebVTT: here the lines themselves stay.
A line of times begins a subtitle wherever it stands, as players read it, with a number alone on the line before.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from dragoman.services.texts.documents.document import Document, DocumentError, Passage, read_text
from dragoman.services.texts.protected import has_letter

_CLOCK = r"(?:\d+:)?\d{1,2}:\d{2}(?:[,.]\d{1,3})?"
TIME = re.compile(rf"[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}(?:[ \t].*)?")
NUMBER = re.compile(r"[ \t]*\d+[ \t]*")
BROKEN = re.compile(r"[ \t]*\d+:\d[\d:.,]{0,20}[ \t]*-->")


def read_subtitles(content: bytes, start: str = "") -> Document:
    """Returns the texts of subtitles; `start`: what the file begins with."""
    mark, text = read_text(content)
    if not text.startswith(start):
        raise DocumentError(f"it does not begin with {start}")
    lines = text.splitlines(keepends=True)
    times = [number for number, line in enumerate(lines) if TIME.fullmatch(line.rstrip())]
    if not times:
        raise DocumentError("no line with times, such as 00:00:01,000 --> 00:00:04,000")
    for number, line in enumerate(lines, 1):
        if BROKEN.match(line) and not TIME.fullmatch(line.rstrip()):
            raise DocumentError(f"line {number}: {line.strip()!r} is no line of times that can be read")
    pieces: list[str | list[str]] = ["".join(lines[: times[0] + 1])]  # lines as they are, and those of a text
    for time, following in zip(times, [*times[1:], None], strict=True):
        end = len(lines) if following is None else following
        if following is not None and end - 1 > time and NUMBER.fullmatch(lines[end - 1].rstrip("\r\n")):
            end -= 1
        text_end = _end_of_text(lines, time + 1, end, bool(start))
        spoken = lines[time + 1 : text_end]
        rest = "".join(lines[text_end : end if following is None else following + 1])
        pieces += [spoken, rest] if has_letter("".join(spoken)) else ["".join(spoken) + rest]
    texts = ("".join(piece).rstrip("\r\n").replace("\r\n", "\n") for piece in pieces if isinstance(piece, list))
    return Document([Passage(text) for text in texts], partial(_write, mark, pieces, bool(start)))


def _end_of_text(lines: Sequence[str], begin: int, end: int, web: bool) -> int:
    """Returns where a subtitle's text ends: before the blank lines at its end; in WebVTT at the first blank line."""
    if web:
        return next((at for at in range(begin, end) if not lines[at].strip()), end)
    while end > begin and not lines[end - 1].strip():
        end -= 1
    return end


def _write(mark: str, pieces: Sequence[str | list[str]], web: bool, texts: Sequence[str], _language: str) -> bytes:
    texts_left, out = iter(texts), [mark]
    for piece in pieces:
        if isinstance(piece, str):
            out.append(piece)
            continue
        whole, text = "".join(piece), next(texts_left)
        stop = "\r\n" if "\r\n" in whole else "\n"
        rows = [row for row in text.split("\n") if row.strip() or not web]  # a blank line would end the subtitle
        out.append(stop.join(rows).replace("-->", "->") + whole[len(whole.rstrip("\r\n")) :])
    return "".join(out).encode()


read_srt: Callable[[bytes], Document] = read_subtitles
read_vtt: Callable[[bytes], Document] = partial(read_subtitles, start="WEBVTT")
