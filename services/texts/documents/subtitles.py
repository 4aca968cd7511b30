"""Subtitles, .srt and .vtt: the lines under a time. Numbers, times, settings, styles and notes stay as they are.

The libraries for subtitles write them anew, without the settings and notes of WebVTT: here the lines themselves stay.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from dragoman.services.texts.documents.document import Document, DocumentError, Passage, read_text
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import has_letter

TIME = re.compile(r"[ \t]*(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}[ \t]*-->[ \t]*(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}.*")
MARKED = re.compile(r"<[/a-zA-Z]|&[a-zA-Z#]")


def read_subtitles(content: bytes, start: str = "") -> Document:
    """Returns the texts of subtitles; `start`: what the file begins with.

    Raises:
        DocumentError: it is no such file.
    """
    mark, text = read_text(content)
    if not text.startswith(start):
        raise DocumentError(f"it does not begin with {start}")
    lines = text.splitlines(keepends=True)
    if not any(map(TIME.fullmatch, map(str.rstrip, lines))):
        raise DocumentError("no line with times, such as 00:00:01,000 --> 00:00:04,000")
    pieces: list[str | list[str]] = []  # lines as they are, and those of a text
    shown = False
    for line in lines:
        blank = not line.strip()
        if shown and not blank:
            if not isinstance(pieces[-1], list):
                pieces.append([])
            last = pieces[-1]
            assert isinstance(last, list)
            last.append(line)
        else:
            pieces.append(line)
        shown = not blank and (shown or TIME.fullmatch(line.rstrip()) is not None)
    spoken = [one for one in pieces if isinstance(one, list) and has_letter("".join(one))]
    passages = [_passage("".join(one)) for one in spoken]
    return Document(passages, partial(_write, mark, pieces, spoken, passages))


def _passage(text: str) -> Passage:
    text = text.rstrip("\r\n").replace("\r\n", "\n")
    if MARKED.search(text):
        return Passage(text.replace("\n", "<br/>"), TextOptions(format="html"))
    return Passage(text)


def _write(
    mark: str,
    pieces: Sequence[str | list[str]],
    spoken: Sequence[list[str]],
    passages: Sequence[Passage],
    texts: Sequence[str],
    _language: str,
) -> bytes:
    new = {id(lines): (passage, text) for lines, passage, text in zip(spoken, passages, texts, strict=True)}
    out = [mark]
    for piece in pieces:
        if isinstance(piece, str) or id(piece) not in new:
            out += [piece] if isinstance(piece, str) else piece
            continue
        passage, text = new[id(piece)]
        whole = "".join(piece)
        stop = "\r\n" if "\r\n" in whole else "\n"
        if passage.options.format == "html":
            text = text.replace("<br/>", "\n")
        rows = [row for row in text.split("\n") if row.strip()]  # a blank line would end the subtitle
        out.append(stop.join(rows).replace("-->", "->") + whole[len(whole.rstrip("\r\n")) :])
    return "".join(out).encode()


read_srt: Callable[[bytes], Document] = read_subtitles
read_vtt: Callable[[bytes], Document] = partial(read_subtitles, start="WEBVTT")
