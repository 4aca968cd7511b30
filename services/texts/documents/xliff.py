"""XLIFF 1.1, 1.2 and 2.0: segments without a translation get one; their codes are tags."""

from collections.abc import Iterator, Sequence
from functools import partial
from html import escape

from lxml import etree

from dragoman.services.texts.documents.document import Document, DocumentError, Passage
from dragoman.services.texts.documents.xml import Node, clean, read_xml, write_xml
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import has_letter

NAMESPACES = tuple(f"urn:oasis:names:tc:xliff:document:{version}" for version in ("1.1", "1.2", "2.0"))
CODES = ("ph", "bpt", "ept", "it")  # of XLIFF 1.2: what is in them is code
INLINE = ("g", "x", "bx", "ex", "mrk", "sub", "sc", "ec", "pc", "cp", "sm", "em")
OPTIONS = TextOptions(format="xml", ignore_tags=CODES, non_splitting_tags=INLINE, outline_detection=False)
UNDONE = ("new", "needs-translation", "initial")


def read_xliff(content: bytes) -> Document:
    """Returns the segments of an XLIFF file that wait for a translation."""
    tree = read_xml(content, "XLIFF")
    root = etree.QName(tree.getroot())
    if root.localname != "xliff" or root.namespace not in (*NAMESPACES, None):
        raise DocumentError("it is no XLIFF 1.1, 1.2 or 2.0: its root element is another one")
    space = f"{{{root.namespace}}}" if root.namespace else ""
    segments = [
        segment for segment in _segments(tree, space) if has_letter("".join(segment.find(f"{space}source").itertext()))
    ]
    passages = [Passage(_inner(_source_of(segment, space)), OPTIONS) for segment in segments]
    return Document(passages, partial(_write, tree, space, segments))


def _segments(tree: Node, space: str) -> Iterator[Node]:
    for unit in tree.iter(f"{space}trans-unit", f"{space}segment"):
        said = (above.get("translate") for above in (unit, *unit.iterancestors()))
        if unit.find(f"{space}source") is None or next(filter(None, said), "yes") == "no":
            continue
        target = unit.find(f"{space}target")
        state = unit.get("state") if target is None else target.get("state", unit.get("state"))
        if target is None or not "".join(target.itertext()).strip() or state in UNDONE:
            yield unit


def _source_of(segment: Node, space: str) -> Node:
    """Returns what is translated: the source as an editor has marked its sentences, if it has."""
    marked = segment.find(f"{space}seg-source")
    return segment.find(f"{space}source") if marked is None else marked


def _inner(element: Node) -> str:
    """Returns what is in an element, without the declarations of namespaces, which all stand in its own tag."""
    written = etree.tostring(element, encoding="unicode", with_tail=False)
    return str(written[written.index(">") + 1 : written.rindex("</")])


def _write(tree: Node, space: str, segments: Sequence[Node], texts: Sequence[str], language: str) -> bytes:
    for segment, text in zip(segments, texts, strict=True):
        source, old = segment.find(f"{space}source"), segment.find(f"{space}target")
        names = "".join(
            f' xmlns{f":{prefix}" if prefix else ""}="{escape(uri)}"' for prefix, uri in source.nsmap.items()
        )
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        try:
            new = etree.fromstring(f"<target{names}>{clean(text)}</target>", parser)
        except etree.XMLSyntaxError as problem:
            raise DocumentError(f"XLIFF: a translation is no XML ({problem})") from None
        if segment.get("state") in UNDONE:
            segment.set("state", "translated")
        if old is None:
            before = segment.find(f"{space}seg-source")
            before = source if before is None else before
            new.tail, before.tail = before.tail, before.tail
            before.addnext(new)
            continue
        state = old.get("state")
        new.attrib.update(old.attrib)
        if state in UNDONE:
            new.set("state", "translated")
        new.tail = old.tail
        segment.replace(old, new)
    if language:
        for file in tree.iter(f"{space}file"):
            if "source-language" in file.attrib and "target-language" not in file.attrib:
                file.set("target-language", language)
        root = tree.getroot()
        if "srcLang" in root.attrib and "trgLang" not in root.attrib:
            root.set("trgLang", language)
    return write_xml(tree)
