"""Translation units of TMX files (1.4): language -> text, without the codes of their formats.

An inline element that stands for formatting (`bpt`, `ph` ...) is dropped with its content, which is code; between words
it is a blank. One that holds text (`hi`, `sub`) gives its text. Of entities only those of HTML are read, and nothing is
fetched, so a file cannot read another file or grow without limit. A character that XML forbids damages its unit alone.
"""

import codecs
import re
from collections.abc import Iterator
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any

from lxml import etree

from dragoman.model.errors import UserError
from dragoman.model.inputs.compression import plain_blocks
from dragoman.model.inputs.kinds import is_utf_16
from dragoman.model.inputs.streams import Blocks

PLACE, EDGE = "\ufdd1", "\ufdd2"  # noncharacters: something that stands alone, or where formatting begins or ends
CODES = {"ph": PLACE, "it": PLACE, "ut": PLACE, "bpt": EDGE, "ept": EDGE}  # elements whose content is no text
# Formatting may end inside of a word, and not between a mark and the next word.
_BETWEEN = re.compile(rf"(?<=[.!?:;,…)])[{PLACE}{EDGE}]+(?=[^\W\d_])|(?<=\w){EDGE}*{PLACE}[{PLACE}{EDGE}]*(?=\w)")
Texts = dict[str, str]  # by language
FORBIDDEN, SURROGATE = "\ufdd0", "\ud800"  # a noncharacter, which XML allows and no text has
LONGEST_REFERENCE = 12  # signs of a reference to a character
_CODES = r"x0*(?:[0-8bcef]|1[0-9a-f]|d[89a-f][0-9a-f]{2}|fff[ef])|0*(?:[0-8]|1[124-9]|2\d|3[01])"
_FORBIDDEN = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\udc80-\udcff]|&#(?:{_CODES});", re.IGNORECASE)
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def units_of(path: Path) -> Iterator[Texts]:
    """Yields the texts of each unit by language; a unit with two texts of a language is two.

    A text with a character that XML forbids has a lone surrogate there, which is no UTF-8.
    """
    try:
        with Blocks.from_blocks(allowed_characters(plain_blocks(path))) as file:
            walk = etree.iterparse(
                file, events=("end",), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
            )
            for _, element in walk:
                if _name(element) == "tu":
                    for unit in _units(element):
                        yield {code: text.replace(FORBIDDEN, SURROGATE) for code, text in unit.items()}
                    _forget(element)
    except etree.XMLSyntaxError as problem:
        raise UserError(f"{path}: is no whole TMX file ({problem.msg})") from None


def allowed_characters(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields XML with `FORBIDDEN` for what it may not hold: control characters, their references, and broken UTF-8.

    A document in another encoding, by its byte order mark or its declaration, stays as it is.
    """
    first = next(blocks, b"")
    declared = re.match(rb"\s*<\?xml[^>]*encoding\s*=\s*[\"']([\w.-]+)", first.removeprefix(b"\xef\xbb\xbf"))
    if is_utf_16(first) or (declared and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii", b"ascii")):
        yield first
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    rest = ""
    for block in chain([first], blocks, [b""]):
        text = rest + decoder.decode(block, final=not block)
        cut = text.rfind("&", len(text) - LONGEST_REFERENCE) if block else -1
        text, rest = (text[:cut], text[cut:]) if cut >= 0 else (text, "")
        yield _FORBIDDEN.sub(FORBIDDEN, text).encode()


def _units(unit: Any) -> list[Texts]:
    by_language: dict[str, list[str]] = {}
    for variant in unit.iterchildren():
        if _name(variant) == "tuv":
            language = variant.get(LANGUAGE) or variant.get("lang") or ""
            segment = next((child for child in variant.iterchildren() if _name(child) == "seg"), None)
            if segment is not None:
                by_language.setdefault(language, []).append(_text(segment))
    most = max(map(len, by_language.values()), default=0)
    return [{code: texts[min(row, len(texts) - 1)] for code, texts in by_language.items()} for row in range(most)]


def _text(segment: Any) -> str:
    text = _BETWEEN.sub(" ", "".join(_pieces(segment))).replace(PLACE, "").replace(EDGE, "")
    return " ".join(blanks(text).split())


def blanks(text: str) -> str:
    """Returns a text with blanks for those that are written as HTML."""
    return text.replace("&nbsp;", " ").replace("&#160;", " ")


def _pieces(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag is etree.Entity:
            yield unescape(child.text)
        elif isinstance(child.tag, str):
            code = CODES.get(_name(child))
            yield from _pieces(child) if code is None else (code,)
        yield child.tail or ""


def _name(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _forget(element: Any) -> None:
    """Frees the memory of a unit and of those before it."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]
