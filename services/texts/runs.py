"""The inline model: a passage of any format is a run of text with units, which are no text.

A unit is a mask, which has a place (a placeholder, code, a reference, a break, an image), or a tag, which opens and
closes around words. Offsets count characters of `Run.text`, where a mask has at least one character. A translated run
is its text with a `Place` for each unit; `Writer` writes both.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, TypeVar

Span = tuple[int, int]


@dataclass(eq=False)
class Mask:
    """A unit that comes back as it is."""

    start: int
    end: int
    kind: str  # url, email, number, placeholder, code, emoji, message, reference, glued, ...
    raw: str  # what is written to the answer
    anchor: bool = False  # it is no word of the sentence: it only has a place between words
    inner: "Sequence[str | Run]" = ()  # instead of `raw`: what is translated inside of it (a plural's branches)
    exact: bool = True  # False: a term in another form than the glossary's
    seen: bool = False  # a reader sees letters of an element that is kept

    @property
    def verbatim(self) -> bool:
        """Returns True if the model may see it as it is: most copy numbers, and a term is translated."""
        return self.kind in ("number", "term")


@dataclass(eq=False)
class Tag:
    """A unit around a part of a run."""

    start: int
    end: int
    opening: str
    closing: str
    inner: "Sequence[str | Run]" = ()  # instead of `opening`: its attributes that are translated
    kind: str = "tag"

    @property
    def raw(self) -> str:
        """Returns what tells it from others."""
        return self.opening

    @property
    def name(self) -> str:
        """Returns the element's name; `a` for a link of Markdown."""
        return "a" if self.opening == "[" else (self.opening.strip("</>").split() or [""])[0].lower()


Unit = Mask | Tag
AnyUnit = TypeVar("AnyUnit", Mask, Tag)


@dataclass(eq=False)
class Place:
    """Where a unit stands in a text or in an answer."""

    start: int
    end: int
    unit: Unit
    how: str = "kept"  # copied, stand-in, inflected, aligned, guessed, cut
    raw: str | None = None  # what is written instead of the mask as it is
    inner: "list[Place]" = field(default_factory=list)  # tags in this tag

    def moved(self, by: int) -> "Place":
        """Returns it in a text that is put so far into another."""
        return Place(self.start + by, self.end + by, self.unit, self.how, self.raw) if by else self


@dataclass(frozen=True)
class Form:
    """The written form of text in a document."""

    kind: Literal["text", "html", "xml", "markdown", "attribute"] = "text"
    blanks: bool = False  # a no-break space is &nbsp;
    greater: bool = False  # > is &gt;
    bars: bool = False  # | is \\|: a cell of Markdown

    def write(self, text: str) -> str:
        """Returns text as the document has it."""
        if self.kind in ("text", "markdown"):
            return text.replace("|", "\\|") if self.bars else text
        if self.kind == "attribute":
            return escape(text)
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        text = text.replace(">", "&gt;") if self.greater else text
        return text.replace("\u00a0", "&nbsp;") if self.blanks else text


@dataclass(eq=False)
class Run:
    """A passage: text with its units."""

    text: str
    masks: list[Mask] = field(default_factory=list)  # in order, apart from each other
    tags: list[Tag] = field(default_factory=list)  # properly nested, an outer one before its inner ones
    form: Form = Form()
    split_lines: bool = True  # False: a line feed is a blank, as in HTML
    raw: str = ""  # as it was written; "": as `source` writes it
    # of Markdown: its tokens (None: not alone), the document's references, what the document has for what they have
    parsed: Any = None
    borders: Sequence[int] = ()  # places that no sentence goes over
    unread: str = ""  # why it is only reported: it is written with what stands around it

    def inside(self, start: int, end: int) -> list[Mask]:
        """Returns the masks that lie in a part of the text."""
        return _inside(self.masks, start, end)

    def touches(self, start: int, end: int) -> bool:
        """Returns True if a mask lies in a part of the text, or over its borders."""
        at = bisect_right(self.masks, start, key=lambda mask: mask.end)
        return at < len(self.masks) and self.masks[at].start < end

    def outside(self, start: int, end: int) -> list[str]:
        """Returns a part of the text without its masks, in the pieces that they leave."""
        pieces, place = [], start
        for mask in self.inside(start, end):
            pieces.append(self.text[place : mask.start])
            place = mask.end
        return [*pieces, self.text[place:end]]

    def tags_inside(self, start: int, end: int) -> list[Tag]:
        """Returns the tags that lie in a part of the text."""
        return _inside(self.tags, start, end)

    def add_masks(self, masks: Iterable[Mask]) -> None:
        """Adds masks where none is."""
        for mask in masks:
            insort(self.masks, mask, key=lambda mask: mask.start)

    @property
    def units(self) -> list[Unit]:
        """Returns everything in it that comes back as it is."""
        return [*self.masks, *self.tags]

    def source(self, start: int, end: int, tags: Iterable[Tag]) -> str:
        """Returns a part as its document has it, with these of the tags in it."""
        masks = [Place(mask.start, mask.end, mask) for mask in self.inside(start, end)]
        roots = nest([Place(tag.start, tag.end, tag) for tag in tags])
        return Writer(self.form, self.text, masks).write(roots, start, end)


Node = str | Run


def _inside(units: Sequence[AnyUnit], start: int, end: int) -> list[AnyUnit]:
    first = bisect_left(units, start, key=lambda unit: unit.start)
    last = bisect_right(units, end, lo=first, key=lambda unit: unit.start)
    return [unit for unit in units[first:last] if unit.end <= end]


class Writer:
    """Writes a run or its translation: text escaped, masks as they are, tags around their words."""

    def __init__(
        self, form: Form, text: str, masks: Sequence[Place], inner: "Mapping[Unit, str] | None" = None
    ) -> None:
        """`inner`: what is written for the units in which something is translated."""
        self.form = form
        self.text = text
        self.masks = masks
        self.inner = inner or {}
        self.following = 0  # the next mask
        self.out: list[str] = []
        self.length = 0
        self.done = 0  # the end of the last mask: a tag may begin inside of it
        self.written: list[Place] = []  # where everything went, in characters of the answer

    def write(self, tags: Sequence[Place], start: int, end: int) -> str:
        """Returns a part of the text with these tags."""
        self._write(tags, start, end, math.inf)
        return "".join(self.out)

    def _write(self, tags: Sequence[Place], start: int, end: int, limit: float) -> None:
        """Writes the text from `start` to `end` with these tags; `limit`: where that ends in the run."""
        place = start
        for tag in tags:
            unit = tag.unit
            assert isinstance(unit, Tag)
            self._plain(place, tag.start, unit.start)
            begin = self.length
            self._add(self.inner.get(unit, unit.opening))
            self._write(tag.inner, tag.start, tag.end, unit.end)
            self._add(unit.closing)
            self.written.append(Place(begin, self.length, unit, tag.how))
            place = tag.end
        self._plain(place, end, limit)

    def _add(self, text: str) -> None:
        self.out.append(text)
        self.length += len(text)

    def _plain(self, start: int, end: int, limit: float) -> None:
        """Writes text without tags; what stands at its end is of it if it stands before `limit` in the run."""
        while self.following < len(self.masks):
            place = self.masks[self.following]
            if place.start >= end and (place.end > end or place.unit.start >= limit):
                break
            self.following += 1
            self._text(start, place.start)
            assert isinstance(place.unit, Mask)
            raw = place.unit.raw if place.raw is None else place.raw
            if place.unit in self.inner:
                raw = raw.replace(place.unit.raw, self.inner[place.unit], 1)
            begin = self.length + len(raw) - len(raw.lstrip(" "))
            self._add(raw)
            last = self.length - (len(raw) - len(raw.rstrip(" ")) if raw.strip(" ") else 0)
            self.written.append(Place(begin, last, place.unit, place.how))
            self.done = max(self.done, place.end)
        self._text(start, end)

    def _text(self, start: int, end: int) -> None:
        start = max(start, self.done)
        if start < end:
            self._add(self.form.write(self.text[start:end]))


def ordered(tags: Iterable[Tag]) -> list[Tag]:
    """Returns the tags, outer ones before inner ones."""
    return sorted(tags, key=lambda tag: (tag.start, -tag.end))


def nest(places: Sequence[Place]) -> list[Place]:
    """Puts the places of tags, which are in order, into those around them in the run; returns the outermost."""
    roots: list[Place] = []
    waiting: list[Place] = []
    for place in places:
        while waiting and waiting[-1].unit.end <= place.unit.start:  # no tag is empty
            waiting.pop()
        (waiting[-1].inner if waiting else roots).append(place)
        waiting.append(place)
    return roots
