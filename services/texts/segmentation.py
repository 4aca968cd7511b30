"""Where a run is cut: lines, cells, markers of lists and sentences. What lies between segments stays as it is."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import regex

from dragoman.model.text.sentences import Piece, split
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import has_letter
from dragoman.services.texts.runs import Run, Span

# What begins a line and is not of its sentence: bullets, numbers, headings, quoted lines, boxes to tick.
_MARKER = regex.compile(
    r"(?:(?:[-–—*+•◦▪‣·»>]+|\#{1,6}|\(?\p{Nd}{1,3}[.)]|\(?[A-Za-z]\)|\[[ xX]?\])(?:\s+|$)|[>•◦▪‣]+(?=\p{L}))+"
)
_BULLET = regex.compile(r"(?:[-–—*•◦▪‣]\s+)+")
_LEAD = regex.compile(r"[,;:.!?…)\]}/\\|=&*+<>~^]+")
_TAIL = regex.compile(r"(?r)(?<=\s)[|/\\=&*+<>~^–—-]++")  # read from the end
_CELL = regex.compile(r"\t+|(?<=\S)[ \u00a0]{3,}(?=\S)")
_BARRED = regex.compile(rf"\s*\|\s*|{_CELL.pattern}")
_SOFT_END = regex.compile(r"[\p{L}\p{M}\p{N},’'\"“”)%€$-]$")
_LOWER = regex.compile(r"[\"'“„‘«(]*\p{Ll}")
# One sentence that neither begins nor ends with anything to leave out: words, single blanks, at most one stop.
_SENTENCE = regex.compile(r"\p{L}(?:[\p{L}\p{M},'’-]++| (?=\p{L}))*+(?<=[\p{L}\p{M}])[.!?]?")
_PAIRS = {
    '"': '"',
    "“": "”“",
    "„": "“”",
    "«": "»",
    "»": "«",
    "‘": "’",
    "‚": "‘",
    "(": ")",
    "[": "]",
    "「": "」",
    "『": "』",
    "（": "）",
}
_CLOSERS = frozenset("".join(_PAIRS.values()))
UNSEEN = "\u2063"  # stands for what is no part of a sentence
SEEN = ("emoji", "soft", "border")  # masks whose text is looked at
WRAPPED = 50  # characters of a line that was probably broken to fit a width


class Segment(NamedTuple):
    """A part of a run that is translated."""

    start: int
    end: int
    sentences: int = 1  # that begin in it


def find_segments(run: Run, options: TextOptions, language: str, longest: int) -> list[Segment]:
    """Returns the parts of a run that are translated, one sentence each, in order."""
    if not run.masks and not run.borders and len(run.text) <= longest and _SENTENCE.fullmatch(run.text):
        return [Segment(0, len(run.text))]  # most texts: all that follows would find the same
    shade, by_sentence = shadow(run), options.split_sentences != "off"
    if options.split_sentences == "nonewlines" or not run.split_lines:
        chunks: Iterator[Span] = iter([(0, len(shade))])
    else:
        chunks = _chunks(shade, joined=options.split_sentences != "newlines")
    apart = _apart(chunks, run.borders) if run.borders else chunks
    pieces = (cut(run, shade[start:end], start, longest, language, by_sentence) for start, end in apart)
    return [segment for chunk in pieces for segment in chunk]


def cut(run: Run, shade: str, first: int, longest: int, language: str, by_sentence: bool = True) -> list[Segment]:
    """Returns the sentences of a part of a run, those of more than `longest` characters in pieces.

    `shade`: the part's shadow; `first`: where the part begins. Without `by_sentence` only pieces are cut.
    """
    flat = shade.replace("\r", " ").replace("\n", " ")
    seen: Sequence[int] = range(len(flat))
    if UNSEEN in flat:
        seen = [at for at in seen if flat[at] != UNSEEN]
        flat = flat.replace(UNSEEN, "")
    whole = _spans(split(flat, sys.maxsize, language)) if len(flat) > longest or not by_sentence else []
    begins = [start for start, end in whole if has_letter(flat[start:end])]
    segments = []
    for place, stop in _spans(split(flat, longest, language, sentences=by_sentence)):
        sentences = bisect_left(begins, stop) - bisect_left(begins, place)
        if span := trim(run, shade, first + seen[place], first + seen[stop - 1] + 1, first):
            segments.append(Segment(*span, sentences if whole else 1))
    return segments


def count_sentences(text: str, language: str) -> int:
    """Returns the number of sentences in a text."""
    return sum(has_letter(piece.text) for piece in split(text, sys.maxsize, language))


def _spans(pieces: Iterable[Piece]) -> list[Span]:
    """Returns where the texts of pieces stand in the text that was split."""
    spans, place = [], 0
    for piece in pieces:
        if piece.text:
            spans.append((place, place + len(piece.text)))
        place += len(piece.text) + len(piece.after)
    return spans


def _apart(chunks: Iterable[Span], borders: Sequence[int]) -> Iterator[Span]:
    for start, end in chunks:
        inside = borders[bisect_right(borders, start) : bisect_left(borders, end)]
        yield from pairwise((start, *inside, end))


def trim(run: Run, shade: str, start: int, end: int, first: int = 0) -> Span | None:
    """Returns the part of a sentence that is translated, without what only surrounds it; None if there is no letter.

    `shade`: the run's shadow from `first` on.
    """
    masks = run.inside(start, end)
    start, end = start - first, end - first
    low, high = 0, len(masks)  # the masks that the rounds left: each is looked at once
    before: Span | None = None
    while before != (start, end):
        before = (start, end)
        while start < end and shade[start].isspace():
            start += 1
        while start < end and shade[end - 1].isspace():
            end -= 1
        if lead := _LEAD.match(shade, start, end):
            start = lead.end()
        if tail := _TAIL.match(shade, start, end):
            end = tail.start()
        if bullet := _BULLET.match(shade, start, end):
            start = bullet.end()
        while low < high and masks[low].start <= first + start and masks[low].end <= first + end:
            if masks[low].start == first + start:
                if not masks[low].anchor:
                    break
                start = masks[low].end - first
            low += 1
        while low < high and masks[high - 1].end >= first + end and masks[high - 1].start >= first + start:
            if masks[high - 1].end == first + end:
                if not masks[high - 1].anchor:
                    break
                end = masks[high - 1].start - first
            high -= 1
        start, end = _unwrap(shade, start, end)
    start, end = first + start, first + end
    return (start, end) if any(map(has_letter, run.outside(start, end))) else None


def _unwrap(text: str, start: int, end: int) -> Span:
    """Returns the span without a quote or bracket that opens at its start or closes at its end, around it or alone."""
    if end - start < 2:
        return start, end
    opener, last = text[start], text[end - 1]

    def holds(signs: Iterable[str], begin: int, stop: int) -> bool:
        return any(text.find(sign, begin, stop) >= 0 for sign in signs)

    closing = _PAIRS.get(opener, "")
    if closing and last in closing and not holds(closing + opener, start + 1, end - 1):
        return start + 1, end - 1
    if closing and not holds(closing, start + 1, end):
        return start + 1, end
    if last in _CLOSERS and not holds([last, *(sign for sign, ends in _PAIRS.items() if last in ends)], start, end - 1):
        return start, end - 1
    return start, end


def shadow(run: Run, start: int = 0, end: int | None = None) -> str:
    """Returns a part of the text in the same length, in which no border lies inside of a mask or of a message."""
    end = len(run.text) if end is None else end
    signs: list[str] = []
    place = start
    for mask in run.inside(start, end):
        signs.append(run.text[place : mask.start])
        place = mask.end
        raw = run.text[mask.start : mask.end]
        if mask.kind == "break":  # a line feed or a tab, written as letters
            signs.append(("\t" if raw[-1] == "t" else "\u2029") * len(raw))
        elif mask.anchor and mask.kind not in SEEN:  # a tag is no word
            signs.append(UNSEEN * len(raw))
        elif mask.kind not in SEEN:
            first = "" if mask.kind == "number" else "X" if len(raw) > 1 else "ʘ"  # no initial, as X. would be
            signs.append(first + "".join([sign if sign.isalnum() else "x" for sign in raw[len(first) :]]))
        elif mask.raw.isascii() and mask.kind == "emoji":  # a smiley has no letters and no marks
            signs.append("\u263a" * len(raw))
        else:
            signs.append(raw)
    return "".join([*signs, run.text[place:end]])


def _chunks(text: str, joined: bool) -> Iterator[Span]:
    """Yields the parts of a text that lines, markers and cells leave; `joined`: lines of one sentence are one part."""
    open_start, last = -1, (0, 0)  # the part that may go on in the next line, and its last line
    indent = 0
    place = 0
    for line in text.splitlines(keepends=True):
        body = line.rstrip()
        inner = len(body) - len(body.lstrip())
        marker = _MARKER.match(body, inner)
        start, end = place + (marker.end() if marker else inner), place + len(body)
        cells = [] if start >= end else list(_cells(text, start, end))
        joins = joined and open_start >= 0 and not marker and len(cells) == 1 and inner == indent
        joins = joins and text[place - 1 : place] != "\u2029"  # a break that somebody wanted
        if joins and _goes_on(text[last[0] : last[1]], text[start:end]):
            last = (start, end)
        else:
            if open_start >= 0:
                yield open_start, last[1]
            open_start = -1
            if len(cells) == 1:
                open_start, last = cells[0][0], cells[0]
                indent = inner + (len(marker.group()) if marker else 0)
            yield from cells if len(cells) > 1 else ()
        if not cells:
            open_start = -1
        place += len(line)
    if open_start >= 0:
        yield open_start, last[1]


def _cells(text: str, start: int, end: int) -> Iterator[Span]:
    bars = text.count("|", start, end) >= 2 or text[start] == "|"
    place = start
    for match in (_BARRED if bars else _CELL).finditer(text, start, end):
        if place < match.start():
            yield place, match.start()
        place = match.end()
    if place < end:
        yield place, end


def _goes_on(line: str, following: str) -> bool:
    """Returns True if a sentence goes on in the next line."""
    if not line or not following or not _SOFT_END.search(line):
        return False
    return _LOWER.match(following) is not None or len(line) >= WRAPPED
