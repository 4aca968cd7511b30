"""Text with tags as a tree that keeps every character as it was written.

A parser's tree has forgotten what was written (`<x></x>` and `<x/>`, quotes of attributes, entities): here two patterns
say where tags begin and end. Nothing is expanded, nothing is fetched, and no depth makes a function call itself.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape
from itertools import islice
from xml.parsers import expat

from dragoman.model.errors import UserError
from dragoman.services.texts.runs import Mask

ROOT = "texts"  # around XML that is a part of a document
DEEPEST = 100  # tags inside of each other
VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
)
# A start tag of these ends an open one of the same row.
IMPLIED = {
    **dict.fromkeys(("li",), frozenset(("li",))),
    **dict.fromkeys(("dt", "dd"), frozenset(("dt", "dd"))),
    **dict.fromkeys(("td", "th"), frozenset(("td", "th"))),
    "tr": frozenset(("tr", "td", "th")),
    "option": frozenset(("option",)),
    "p": frozenset(("p",)),
}
RAW = frozenset(("script", "style"))  # what is in them has no tags
LONGEST_BRACED = 500  # characters of a template in braces
MOST_BROKEN = 10  # tags that nothing ends, before a < ends a tag even in quotes
# What begins something that is no element, and what may end it.
CLOSERS = {
    "<!--": ("-->", "--!>"),
    "<![CDATA[": ("]]>",),
    "<!": (">",),
    "</": (">",),
    "<%": ("%>",),
    "<?": ("?>", ">"),
    "{{": ("}}",),
    "{%": ("%}",),
}
_HTML_OPENER = re.compile(r"(?P<tag></?[A-Za-z])|<!--|<!\[CDATA\[|<!(?=[A-Za-z\[])|</(?=[^\s<>])|<[%?]|\{[{%]")
_XML_OPENER = re.compile(r"(?P<tag></?[^\s<>!?/])|<!--|<!\[CDATA\[|<\?")
_INSIDE = "|".join(  # a template in a tag
    rf"{begin}(?:(?!{end}).){{0,{LONGEST_BRACED}}}+{end}"
    for begin, end in (("<%", "%>"), (r"<\?", r"\?>"), (r"\{\{", r"\}\}"), (r"\{%", r"%\}"))
)
_DOUBLE, _SINGLE = (rf"[^{quote}<{{]*+(?:(?:{_INSIDE}|[<{{])[^{quote}<{{]*+)*+" for quote in "\"'")
_TAG = re.compile(rf"""</?(?P<name>[^\s/<>]++)(?:{_INSIDE}|=\s*+(?:"{_DOUBLE}"|'{_SINGLE}')|[^<>])*+>""", re.DOTALL)
_CUT_TAG = re.compile(r"</?(?P<name>[^\s/<>]++)[^<>]*+>")
_ATTRIBUTE = re.compile(rf"""([^\s"'<>/=]++)(?:\s*+=\s*+(?:"({_DOUBLE})"|'({_SINGLE})'|([^\s"'<>]++)))?""", re.DOTALL)
_CODE = re.compile(  # of XLIFF and TMX
    r"<(?:(?P<begin>bpt|bx|sc|x(?=[^>]*\bid=.START_))|(?P<end>ept|ex|ec|x(?=[^>]*\bid=.CLOSE_)))\b"
    r"[^>]*?\b(?:rid|startRef|id|i)=.(?:START_|CLOSE_)?(?P<key>[^\"'>]*)"
)
_ENDLESS = re.compile(r"(?<=&#)[0-9]{4000,}")  # no character; Python reads no number of more than 4,300 digits
_REFERENCE = re.compile(r"&(?:#x([0-9A-Fa-f]+)|#([0-9]+)|amp|lt|gt|quot|apos);")  # of XML


@dataclass(eq=False)
class Element:
    """An element, or a tag without its other half, a comment, a declaration: those have no end tag."""

    name: str  # "" for what is no element, "!" for a declaration
    opening: str
    children: "list[Child]" = field(default_factory=list)
    closing: str = ""

    @cached_property
    def attributes(self) -> Mapping[str, str]:
        """Returns the attributes of the start tag."""
        return {name: value for name, _, _, value in find_attributes(self.opening)} if self.name.strip("!") else {}


@dataclass(frozen=True)
class Text:
    """Characters as they are read, and as they were written."""

    text: str
    raw: str


Child = Text | Element | Mask


def find_attributes(tag: str) -> Iterator[tuple[str, int, int, str]]:
    """Yields the attributes of a start tag as it was written: name, the value's place and the value."""
    for match in islice(_ATTRIBUTE.finditer(tag), 1, None):  # the first is the element's name
        group = next((number for number in (2, 3, 4) if match[number] is not None), 0)
        yield match[1].lower(), match.start(group), match.end(group), unescape_html(match[group]) if group else ""


def source_of(child: Child) -> str:
    """Returns what was read as this part of the tree."""
    return "".join(
        node if isinstance(node, str) else node.opening if isinstance(node, Element) else node.raw
        for node in walk(child)
    )


def walk(child: Child) -> Iterator[Child | str]:
    """Yields a part of a tree in the order of the document; an element's end tag as a string."""
    waiting: list[Child | str] = [child]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Element):
            waiting += [node.closing] if node.closing else []
            waiting += reversed(node.children)


class Grower:
    """Makes a tree of tags as they come; those that do not match stay where they are, without their other half."""

    def __init__(self, kind: str = "") -> None:
        """`kind`: what a message about tags nested deeper than DEEPEST begins with; "": such tags stay alone."""
        self.kind = kind
        self.root = Element("", "")
        self.open = [self.root]

    def add(self, child: Child) -> None:
        """Adds something that nothing is in."""
        self.open[-1].children.append(child)

    def start(self, element: Element) -> None:
        """Adds a start tag."""
        self.add(element)
        if len(self.open) <= DEEPEST:
            self.open.append(element)
        elif self.kind:
            raise UserError(f"{self.kind}: elements are nested deeper than {DEEPEST}")

    def end(self, name: str, raw: str, within: str = "") -> None:
        """Adds an end tag; it ends nothing outside of an element whose name begins with `within`."""
        for depth in range(len(self.open) - 1, 0, -1):
            if self.open[depth].name == name:
                self.unwind(depth)
                self.open.pop().closing = raw
                return
            if within and self.open[depth].name.startswith(within):
                break
        self.add(Element(name, raw))

    def unwind(self, depth: int = 0) -> Element:
        """Makes the start tags above this depth tags alone, since nothing ends them; returns the root."""
        while len(self.open) > depth + 1:
            element = self.open.pop()
            self.open[-1].children += element.children
            element.children = []
        return self.root


class _Reader:
    """Cuts a text into tags, comments, templates and what is between them."""

    def __init__(self, text: str, kind: str) -> None:
        self.text = text
        self.html = kind == "HTML"
        self.grower = Grower(kind)
        self.missing: set[str] = set()  # what ends nothing from here on
        self.broken = self.place = 0

    def read(self) -> Element:
        start = 0
        pattern = _HTML_OPENER if self.html else _XML_OPENER
        while opener := pattern.search(self.text, start):
            if opener["tag"]:
                end = self._tag(opener.start())
            else:
                end = self._other(opener.group(), opener.start(), opener.end())
            start = end or opener.end()
        self._until(len(self.text))
        return self.grower.unwind()

    def _until(self, place: int, end: int = 0) -> None:
        """Adds the text before a place, what follows begins at `end`."""
        raw = self.text[self.place : place]
        if raw:
            self.grower.add(Text(unescape_html(raw) if self.html else _unescape_xml(raw), raw))
        self.place = end or place

    def _tag(self, start: int) -> int:
        match = (_TAG if self.broken < MOST_BROKEN else _CUT_TAG).match(self.text, start)
        if match is None:
            self.broken += 1
            return 0
        raw, end = match.group(), match.end()
        name = match["name"].lower() if self.html else match["name"]
        self._until(start, end)
        if raw[1] == "/":
            self.grower.end(name, raw)
        elif raw.endswith("/>") or (self.html and name in VOID):
            self.grower.add(Element(name, raw))
        else:
            if self.html and self.grower.open[-1].name in IMPLIED.get(name, ()):
                self.grower.unwind(len(self.grower.open) - 2)
            self.grower.start(Element(name, raw))
            if self.html and name in RAW:
                return self._raw(name, end)
        return end

    def _raw(self, name: str, start: int) -> int:
        """Adds the content of a script as it is."""
        closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(self.text, start)
        end = closing.start() if closing else len(self.text)
        if start < end:
            self.grower.add(Text(self.text[start:end], self.text[start:end]))
        self.place = end
        return end

    def _other(self, opener: str, start: int, inside: int) -> int:
        """Adds what is no element; returns 0 if nothing ends it, or if it is text."""
        braced = opener[0] == "{"
        limit = inside + LONGEST_BRACED if braced else len(self.text)
        for closer in CLOSERS[opener]:
            end = -1 if closer in self.missing else self.text.find(closer, inside, limit)
            if end >= 0:
                end += len(closer)
                break
            self.missing |= set() if braced else {closer}
        else:
            return 0
        raw = self.text[start:end]
        if braced and {"<", ">"}.isdisjoint(raw):  # no tag begins in it
            return 0
        self._until(start, end)
        if opener == "<![CDATA[" and not self.html:
            self.grower.add(Text(raw[len(opener) : -len(closer)], raw))
        else:
            declared = raw.startswith("<?xml") or (opener == "<!" and raw[2].isalpha())
            self.grower.add(Element("!" if declared else "", raw))
        return end


def unescape_html(text: str) -> str:
    """Returns text without references to characters."""
    return unescape(_ENDLESS.sub("x110000", text))


def _unescape_xml(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        return chr(int(match[1] or match[2], 16 if match[1] else 10)) if match[1] or match[2] else unescape(match[0])

    return _REFERENCE.sub(character, text)


def read_html_tree(text: str) -> Element:
    """Returns the tree of a document or of a part of one; wrong markup stays as it is."""
    return _Reader(text, "HTML").read()


def read_xml_tree(text: str) -> Element:
    """Returns the tree of well-formed XML, a document or a part of one.

    Raises UserError: it is not well-formed, or has a document type.
    """
    end = text.index("?>") + 2 if text.startswith("<?xml") and "?>" in text else 0
    if text[end:].lstrip().startswith("<!DOCTYPE"):
        raise UserError("XML: a document type is not accepted, since it can define entities")
    try:
        expat.ParserCreate("utf-8").Parse(f"<{ROOT}>{text[end:]}</{ROOT}>".encode(), True)
    except expat.ExpatError as problem:
        column = problem.offset - (len(f"<{ROOT}>") if problem.lineno == 1 else 0)
        what = expat.ErrorString(problem.code)
        raise UserError(f"XML: {what} (line {problem.lineno}, column {max(0, column) + 1})") from None
    return _pair(_Reader(text, "XML").read())


def _pair(element: Element) -> Element:
    """Makes one element of two codes of XLIFF that begin and end formatting, and of what is between them."""
    levels: list[tuple[str, list[Child]]] = [("", [])]
    for child in element.children:
        code = _CODE.match(child.opening) if isinstance(child, Element) else None
        if code and code["begin"]:
            levels.append((code["key"], []))
        key, inside = levels[-1]
        if code and code["end"] and key == code["key"]:
            levels.pop()
            opening, *between = inside
            levels[-1][1].append(Element("g", source_of(opening), between, source_of(child)))
        else:
            inside.append(_pair(child) if isinstance(child, Element) else child)
    element.children = [child for _, inside in levels for child in inside]
    return element
