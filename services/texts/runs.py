"""A run of text with what must not change in it: masks, and tags around words.

A run is a block of a document (a paragraph, a cell, a plain text), in which sentences are found. Offsets count
characters of `Run.text`, where a mask stands as written.
"""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Span = tuple[int, int]


@dataclass(eq=False)
class Mask:
    """Something in a run that comes back as it is."""

    start: int
    end: int
    kind: str  # url, email, number, placeholder, code, emoji, ...
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
    """A pair of tags around a part of a run; start = end: an empty element."""

    start: int
    end: int
    opening: str
    closing: str
    depth: int = 0
    inner: "Sequence[str | Run]" = ()  # instead of `opening`: its attributes that are translated


Kept = Mask | Tag


def _same(text: str) -> str:
    return text


@dataclass(eq=False)
class Run:
    """A block of text to translate; `escape` writes text in the document's format."""

    text: str
    masks: list[Mask] = field(default_factory=list)  # in order, apart from each other
    tags: list[Tag] = field(default_factory=list)  # properly nested, an outer one before its inner ones
    escape: Callable[[str], str] = _same
    split_lines: bool = True  # False: a line feed is a blank, as in HTML
    name: str = ""  # where it stands in the document: "alt", "title" ...

    def inside(self, start: int, end: int) -> list[Mask]:
        """Returns the masks that lie in a part of the text."""
        first = bisect_left(self.masks, start, key=lambda mask: mask.start)
        masks = itertools.takewhile(lambda mask: mask.start <= end, itertools.islice(self.masks, first, None))
        return [mask for mask in masks if mask.end <= end]

    @property
    def kept(self) -> list[Kept]:
        """Returns everything in it that comes back as it is."""
        return [*self.masks, *self.tags]


Node = str | Run
