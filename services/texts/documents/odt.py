"""OpenDocument texts: paragraphs and headings of the text, headers, footers, notes and comments."""

import re
from collections.abc import Sequence
from functools import partial

from lxml import etree

from dragoman.services.texts.documents.archive import Archive
from dragoman.services.texts.documents.document import Document, DocumentError, Passage
from dragoman.services.texts.documents.inline import Group, Inline, Thing, holds_text, make_passage, rebuild
from dragoman.services.texts.documents.xml import Node, clean, copy_empty, read_xml, write_xml

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
    passages: list[Passage] = []
    paragraphs: list[tuple[Node, dict[int, Thing | Group]]] = []
    trees: dict[str, Node] = {}
    for name in ("content.xml", "styles.xml"):
        if name not in archive.names:
            continue
        trees[name] = read_xml(archive.read(name), name)
        for element in list(trees[name].iter(*PARAGRAPHS)):
            if any(above.tag == DELETED for above in element.iterancestors()):
                continue
            items = _items(element)
            if holds_text(items):
                passage, known = make_passage(items)
                passages.append(passage)
                paragraphs.append((element, known))
    return Document(passages, partial(_write, archive, trees, passages, paragraphs))


def _items(parent: Node) -> list[Inline]:
    found: list[Inline] = [_collapsed(parent.text)] if parent.text else []
    for child in parent:
        if child.tag in AROUND:
            found.append(Group(child, _items(child)))
        elif child.tag == BLANKS:
            found.append(" " * min(MOST_BLANKS, int(child.get(COUNT, "1") or 1)))
        else:
            found.append(Thing(child, child.tag in BORDERS))
        if child.tail:
            found.append(_collapsed(child.tail))
    return found


def _collapsed(text: str) -> str:
    """Returns text as OpenDocument shows it: what follows a blank is none."""
    return re.sub(r"(?<=\S)  +(?=\S)", " ", text)


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


def _write(
    archive: Archive,
    trees: dict[str, Node],
    passages: Sequence[Passage],
    paragraphs: Sequence[tuple[Node, dict[int, Thing | Group]]],
    texts: Sequence[str],
    _language: str,
) -> bytes:
    for passage, (element, known), text in zip(passages, paragraphs, texts, strict=True):
        items = None if text == passage.text else rebuild(text, known)
        if items is not None:
            tail, attributes = element.tail, dict(element.attrib)
            element.clear()
            element.tail = tail
            element.attrib.update(attributes)
            _fill(element, items)
    return archive.write({name: write_xml(tree) for name, tree in trees.items()})
