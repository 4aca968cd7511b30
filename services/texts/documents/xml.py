"""XML members of documents, read without entities, document types' files or the network."""

from collections.abc import Iterator
from typing import Any

from lxml import etree

from dragoman.services.texts.documents.document import DocumentError
from dragoman.services.texts.trees import DEEPEST

Node = Any  # an element of lxml, which has no types
TOO_DEEP = etree.XPath("boolean(" + "/*" * (DEEPEST + 1) + ")")
XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def read_xml(content: bytes, name: str) -> Node:
    """Returns the tree of an XML file."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=False)
    try:
        tree = etree.ElementTree(etree.fromstring(content, parser))
    except (etree.XMLSyntaxError, ValueError) as problem:
        raise DocumentError(f"{name}: {problem}") from None
    if TOO_DEEP(tree):
        raise DocumentError(f"{name}: elements are nested deeper than {DEEPEST}")
    declared = tree.docinfo.internalDTD
    if declared is not None and any(True for _ in declared.iterentities()):
        raise DocumentError(f"{name}: it defines entities, which are not accepted")
    return tree


def write_xml(tree: Node) -> bytes:
    """Returns the tree as a file in UTF-8."""
    content: bytes = etree.tostring(tree, xml_declaration=True, encoding="UTF-8", standalone=tree.docinfo.standalone)
    return content


def clean(text: str) -> str:
    """Returns the text without characters that XML forbids."""
    return "".join(sign for sign in text if (sign >= " " and sign not in "\ufffe\uffff") or sign in "\t\n\r")


def children_of(element: Node) -> Iterator[Node]:
    """Yields the elements inside of an element, without comments and instructions."""
    return (child for child in element if isinstance(child.tag, str))


def copy_empty(element: Node) -> Node:
    """Returns an element with the name and the attributes of another."""
    return etree.Element(element.tag, element.attrib, element.nsmap)
