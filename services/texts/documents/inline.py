"""A paragraph as HTML of our own: `<g-1>` stands for formatting around words, `<x-2/>` for what is no text.

The translator puts these tags beside their words; `rebuild` gives each back what it stands for. A line break or a tab
is `<br>`: a border, over which no sentence goes.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from lxml import etree

from dragoman.services.texts.documents.archive import Archive
from dragoman.services.texts.documents.document import Document, Passage
from dragoman.services.texts.documents.xml import Node, clean, read_xml, write_xml
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import has_letter

HTML = TextOptions(format="html")


@dataclass(frozen=True)
class Thing:
    """Something in a paragraph that is no text."""

    what: Any
    border: bool = False


@dataclass
class Group:
    """Formatting, or an element, around a part of a paragraph."""

    what: Any
    inside: "list[Inline]" = field(default_factory=list)


Inline: TypeAlias = str | Thing | Group


def make_passage(items: Sequence[Inline]) -> tuple[Passage, dict[int, Thing | Group]]:
    """Returns a paragraph as a text, and what its tags stand for by number."""
    items_by_number: dict[int, Thing | Group] = {}

    def write(some: Sequence[Inline]) -> Iterator[str]:
        for inline in some:
            if isinstance(inline, str):
                yield escape(inline, quote=False)
                continue
            number = len(items_by_number) + 1
            items_by_number[number] = inline
            if isinstance(inline, Group):
                yield f"<g-{number}>"
                yield from write(inline.inside)
                yield f"</g-{number}>"
            else:
                yield f'<br class="x-{number}"/>' if inline.border else f"<x-{number}/>"

    return Passage("".join(write(items)), HTML), items_by_number


def rebuild(text: str, items_by_number: dict[int, Thing | Group]) -> list[Inline] | None:
    """Returns the paragraph that a translation stands for; None if its tags are not those of the source.

    Things that are missing are put at the end, so that no picture is lost.
    """
    try:
        root = etree.fromstring(f"<p>{clean(text)}</p>", etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError:
        return None
    seen: set[int] = set()

    def read(element: Any) -> list[Inline]:
        content: list[Inline] = [element.text] if element.text else []
        for child in element:
            name = child.get("class", "") if child.tag == "br" else str(child.tag)
            number = int(name[2:]) if re.fullmatch("[gx]-[0-9]{1,9}", name) else 0
            item = items_by_number.get(number)
            if item is None or number in seen:
                raise KeyError(name)
            seen.add(number)
            content.append(Group(item.what, read(child)) if isinstance(item, Group) else item)
            if child.tail:
                content.append(child.tail)
        return content

    try:
        items = read(root)
    except KeyError:
        return None
    return items + [item for number, item in items_by_number.items() if number not in seen and isinstance(item, Thing)]


def holds_text(items: Sequence[Inline]) -> bool:
    """Returns True if there is something to translate in a paragraph."""
    return any(
        has_letter(item) if isinstance(item, str) else isinstance(item, Group) and holds_text(item.inside)
        for item in items
    )


@dataclass
class Paragraphs:
    """The paragraphs of an archive's parts."""

    archive: Archive
    trees: dict[str, Node] = field(default_factory=dict)  # of the parts, by name
    passages: list[Passage] = field(default_factory=list)
    ways_back: list[tuple[dict[int, Thing | Group], Callable[[list[Inline]], None]]] = field(default_factory=list)

    def tree(self, name: str) -> Node:
        """Returns a part, which is written anew in the end."""
        self.trees[name] = read_xml(self.archive.read(name), name)
        return self.trees[name]

    def add(self, items: Sequence[Inline], fill: Callable[[list[Inline]], None]) -> None:
        """Adds a paragraph, if there is something to translate in it; `fill` puts other items in their place."""
        if holds_text(items):
            passage, items_by_number = make_passage(items)
            self.passages.append(passage)
            self.ways_back.append((items_by_number, fill))

    def document(self) -> Document:
        """Returns them as a document."""
        return Document(self.passages, self._write)

    def _write(self, texts: Sequence[str], _language: str) -> bytes:
        for passage, (items_by_number, fill), text in zip(self.passages, self.ways_back, texts, strict=True):
            items = None if text == passage.text else rebuild(text, items_by_number)
            if items is not None:
                fill(items)
        return self.archive.write({name: write_xml(tree) for name, tree in self.trees.items()})


def clear(element: Node) -> Node:
    """Empties an element, but for its attributes and what follows it; returns it."""
    tail, attributes = element.tail, dict(element.attrib)
    element.clear()
    element.tail = tail
    element.attrib.update(attributes)
    return element
