"""The inline model: a passage of any format is a run of text with units, which are no text.

A unit is a mask, which has a place (a placeholder, code, a reference, a break, an image), or a tag, which opens and
closes around words. Offsets count characters of `Run.text`, where a mask has at least one character.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

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

    @property
    def verbatim(self) -> bool:
        """Returns True if the model may see it as it is: most copy numbers, and a term is translated."""
        return self.kind in ("number", "term")


@dataclass(eq=False)
class Tag:
    """A unit around a part of a run; start = end: an empty element."""

    start: int
    end: int
    opening: str
    closing: str
    depth: int = 0
    inner: "Sequence[str | Run]" = ()  # instead of `opening`: its attributes that are translated

    @property
    def name(self) -> str:
        """Returns the element's name; `a` for a link of Markdown."""
        return "a" if self.opening == "[" else (self.opening.strip("</>").split() or [""])[0].lower()


Unit = Mask | Tag


@dataclass(frozen=True)
class Form:
    """The written form of text in a document."""

    kind: Literal["text", "html", "xml", "markdown", "attribute"] = "text"
    blanks: bool = False  # a no-break space is &nbsp;
    greater: bool = False  # > is &gt;

    def write(self, text: str) -> str:
        """Returns text as the document has it."""
        if self.kind in ("text", "markdown"):
            return text
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
    name: str = ""  # where it stands in the document: "alt", "title" ...
    raw: str = ""  # as it was written; "": as `source` writes it
    tokens: Sequence[Any] = ()  # as a parser has read it
    borders: Sequence[int] = ()  # places that no sentence goes over

    def inside(self, start: int, end: int) -> list[Mask]:
        """Returns the masks that lie in a part of the text."""
        first = bisect_left(self.masks, start, key=lambda mask: mask.start)
        masks = itertools.takewhile(lambda mask: mask.start <= end, itertools.islice(self.masks, first, None))
        return [mask for mask in masks if mask.end <= end]

    @property
    def units(self) -> list[Unit]:
        """Returns everything in it that comes back as it is."""
        return [*self.masks, *self.tags]

    def source(self, start: int, end: int, tags: Iterable[Tag]) -> str:
        """Returns a part as its document has it, with these of the tags in it."""
        masks = iter(self.inside(start, end))
        following = next(masks, None)
        out: list[str] = []
        place = start

        def write(to: int) -> None:
            nonlocal place, following
            while following is not None and following.end <= to:
                out.extend((self.form.write(self.text[place : following.start]), following.raw))
                place, following = following.end, next(masks, None)
            out.append(self.form.write(self.text[place:to]))
            place = max(place, to)

        for edge, tag, opens in edges(tags):
            write(edge)
            out.append(tag.opening if opens else tag.closing)
        write(end)
        return "".join(out)


Node = str | Run


def edges(tags: Iterable[Tag]) -> Iterator[tuple[int, Tag, bool]]:
    """Yields where each tag opens (True) and closes, in the order of the document."""
    waiting: list[Tag] = []
    for tag in tags:
        while waiting and waiting[-1].depth >= tag.depth:
            yield waiting[-1].end, waiting.pop(), False
        yield tag.start, tag, True
        waiting.append(tag)
    while waiting:
        yield waiting[-1].end, waiting.pop(), False


def nested(tags: Iterable[Tag]) -> list[Tag]:
    """Returns the tags, outer ones before inner ones, with their depths."""
    ordered = sorted(tags, key=lambda tag: (tag.start, -tag.end))
    waiting: list[Tag] = []
    for tag in ordered:
        while waiting and waiting[-1].end <= tag.start and waiting[-1].end < tag.end:
            waiting.pop()
        tag.depth = len(waiting) + 1
        waiting.append(tag)
    return ordered
