"""OpenDocument texts: paragraphs and headings of the text, headers, footers, notes and comments."""

import re
from collections.abc import Sequence
from functools import partial

from lxml import etree

from dragoman.services.texts.documents.archive import Archive
from dragoman.services.texts.documents.document import Document, DocumentError
from dragoman.services.texts.documents.inline import Group, Inline, Paragraphs, Thing, clear
from dragoman.services.texts.documents.xml import Node, clean, copy_empty

MOST_BLANKS = 1000
MIMETYPE = b"application/vnd.oasis.opendocument.text"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
PARAGRAPHS = (f"{TEXT}p", f"{TEXT}h")
AROUND = frozenset(TEXT + name for name in ("span", "a", "meta"))
BORDERS = frozenset(TEXT + name for name in ("tab", "line-break"))
BLANKS, COUNT = f"{TEXT}s", f"{TEXT}c"
DELETED = f"{TEXT}tracked-changes"


def read_odt(content: bytes) -> Document:
    """Returns an OpenDocument text."""
    archive = Archive(content)
    if archive.read("mimetype").strip() != MIMETYPE:
        raise DocumentError("it is no OpenDocument text: its member mimetype says otherwise")
    paragraphs = Paragraphs(archive)
    for name in ("content.xml", "styles.xml"):
        for element in list(paragraphs.tree(name).iter(*PARAGRAPHS)) if name in archive.names else ():
            if not any(above.tag == DELETED for above in element.iterancestors()):
                paragraphs.add(_items(element), partial(_refill, element))
    return paragraphs.document()


def _items(parent: Node) -> list[Inline]:
    content: list[Inline] = [_collapsed(parent.text)] if parent.text else []
    for child in parent:
        if child.tag in AROUND:
            content.append(Group(child, _items(child)))
        elif child.tag == BLANKS:
            count = child.get(COUNT, "")
            content.append(" " * min(MOST_BLANKS, int(count) if re.fullmatch("[0-9]{1,9}", count) else 1))
        else:
            content.append(Thing(child, child.tag in BORDERS))
        if child.tail:
            content.append(_collapsed(child.tail))
    return content


def _collapsed(text: str) -> str:
    """Returns text as OpenDocument shows it: what follows a blank is none."""
    return re.sub(r"(?<=\S)  +(?=\S)", " ", text)


def _refill(element: Node, items: Sequence[Inline]) -> None:
    _fill(clear(element), items)


def _fill(element: Node, items: Sequence[Inline]) -> None:
    """Puts items into an empty element; blanks after the first become an element."""
    last: Node = None
    for item in items:
        if isinstance(item, str):
            for number, piece in enumerate(re.split(r"(?<=\S )( +)", clean(item))):
                if number % 2:
                    last = etree.SubElement(element, BLANKS, {COUNT: str(len(piece))})
                elif last is None:
                    element.text = (element.text or "") + piece
                else:
                    last.tail = (last.tail or "") + piece
            continue
        if isinstance(item, Group):
            last = copy_empty(item.what)
            _fill(last, item.inside)
        else:
            last = item.what
            last.tail = None
        element.append(last)
