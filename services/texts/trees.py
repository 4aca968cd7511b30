"""HTML and XML as a tree that keeps every character as it was written.

Python's own parsers read it: they tell where each tag stands, which a tree of lxml has forgotten (`<x></x>` and `<x/>`,
quotes of attributes, entities). Nothing is expanded, nothing is fetched, and no depth makes them call themselves.
"""

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from xml.parsers import expat

from dragoman.model.errors import UserError

ROOT = "texts"
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
# What begins something, and what ends it.
OPEN_ENDED = (
    (re.compile("<!--"), re.compile("--!?>")),
    (re.compile(r"<!\[(?=(?:if|else|endif)\b)", re.IGNORECASE), re.compile(r"\]\s*+>")),
    (re.compile(r"<!\[(?!(?:if|else|endif)\b)", re.IGNORECASE), re.compile(r"\]\s*+\]\s*+>")),
)


@dataclass(eq=False)
class Loose:
    """A tag without its other half, an empty element, a comment, a declaration."""

    name: str  # "" for what is no element
    raw: str
    attributes: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(eq=False)
class Element:
    """An element with both of its tags."""

    name: str
    opening: str
    attributes: Mapping[str, str | None]
    children: "list[Child]" = field(default_factory=list)
    closing: str = ""


@dataclass(frozen=True)
class Text:
    """Characters as they are read, and as they were written."""

    text: str
    raw: str


Child = Text | Loose | Element


def source_of(child: Child) -> str:
    """Returns what was read as this part of the tree."""
    return "".join(map(_start_of, walk(child)))


def _start_of(one: Child | str) -> str:
    return one if isinstance(one, str) else one.opening if isinstance(one, Element) else one.raw


def walk(child: Child) -> Iterator[Child | str]:
    """Yields a part of a tree in the order of the document; an element's end tag as a string."""
    waiting: list[Child | str] = [child]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, Element):
            waiting.append(one.closing)
            waiting += reversed(one.children)


class _Grower:
    """Makes a tree of tags as they come; those that do not match stay where they are, loose."""

    def __init__(self, kind: str, deepest: int) -> None:
        self.kind = kind
        self.deepest = deepest
        self.root = Element(ROOT, "", {})
        self.open = [self.root]

    def add(self, child: Child) -> None:
        self.open[-1].children.append(child)

    def start(self, element: Element) -> None:
        if len(self.open) > self.deepest:
            raise UserError(f"{self.kind}: elements are nested deeper than {self.deepest}")
        self.add(element)
        self.open.append(element)

    def end(self, name: str, raw: str) -> None:
        depth = next((at for at in range(len(self.open) - 1, 0, -1) if self.open[at].name == name), 0)
        if not depth:
            self.add(Loose(name, raw))
            return
        self.unwind(depth)
        self.open.pop().closing = raw

    def unwind(self, depth: int) -> None:
        """Makes the start tags above this depth loose ones: nothing ends them."""
        while len(self.open) > depth + 1:
            element = self.open.pop()
            parent = self.open[-1]
            parent.children.pop()
            parent.children += [Loose(element.name, element.opening, element.attributes), *element.children]


_OPENERS = re.compile(r"<!--|<%|<\?|\{\{|\{%")
_CLOSERS = {"<!--": "-->", "<%": "%>", "<?": "?>", "{{": "}}", "{%": "%}"}
LONGEST_BRACED = 500


def find_templates(text: str) -> list[tuple[int, int]]:
    """Returns where the parts of templates stand that the parser would take for markup."""
    found, place, missing = [], 0, set()
    for match in _OPENERS.finditer(text):
        opener, start = match.group(), match.start()
        if start < place or opener in missing:
            continue
        closer, braced = _CLOSERS[opener], opener[0] == "{"
        end = text.find(closer, match.end(), match.end() + LONGEST_BRACED if braced else len(text)) + len(closer)
        if end < len(closer):
            if not braced:
                missing.add(opener)
        elif not braced or not {"<", ">"}.isdisjoint(text[start:end]):
            place = end
            if opener != "<!--":
                found.append((start, end))
    return found


def _hide(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Returns the text in the same length, with these parts as characters of no meaning; lines stay."""
    out, place = [], 0
    for start, end in spans:
        out += [text[place:start], *("\n" if sign == "\n" else "\ue000" for sign in text[start:end])]
        place = end
    return "".join([*out, text[place:]])


class _HtmlReader(HTMLParser):
    """Feeds a grower; `raw` of an event reaches to where the next one begins."""

    def __init__(self, text: str, deepest: int) -> None:
        super().__init__(convert_charrefs=False)
        self.grower = _Grower("HTML", deepest)
        self.text = text
        self.templates = find_templates(text)
        self.starts = [0]
        for place, sign in enumerate(text):
            if sign == "\n":
                self.starts.append(place + 1)
        self.waiting: Callable[[str], None] | None = None
        self.since = 0
        hidden = _hide(text, self.templates)
        last = hidden.rfind(">") + 1  # no tag ends after it: the parser would look for one again and again
        self.feed(_without_open_ends(hidden[:last]))  # of the same length; what was written is taken from `text`
        self.close()
        self._next(last, None)
        if text[last:]:
            self._add_text(text[last:], unescape(text[last:]))
        self.grower.unwind(0)

    def _next(self, place: int, event: Callable[[str], None] | None) -> None:
        if self.waiting is not None:
            self.waiting(self.text[self.since : place])
        elif place > self.since:
            self._add_text(self.text[self.since : place])
        self.since, self.waiting = place, event

    def _at(self, event: Callable[[str], None]) -> None:
        line, column = self.getpos()
        self._next(min(len(self.text), self.starts[line - 1] + column), event)

    def _add_text(self, raw: str, text: str | None = None) -> None:
        """Adds the text that begins at `since`; the parts of templates in it are no text."""
        place, end = self.since, self.since + len(raw)
        first = bisect_left(self.templates, (place, 0))
        inside = itertools.takewhile(lambda span: span[1] <= end, itertools.islice(self.templates, first, None))
        for start, stop in inside:
            if place < start:
                self.grower.add(Text(self.text[place:start], self.text[place:start]))
            self.grower.add(Loose("", self.text[start:stop]))
            place, text = stop, None
        if place < end:
            self.grower.add(Text(self.text[place:end] if text is None else text, self.text[place:end]))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        def event(raw: str) -> None:
            if tag in VOID or raw.endswith("/>"):
                self.grower.add(Loose(tag, raw, dict(attrs)))
                return
            if tag in IMPLIED and self.grower.open[-1].name in IMPLIED[tag]:
                self.grower.unwind(len(self.grower.open) - 2)
            self.grower.start(Element(tag, raw, dict(attrs)))

        self._at(event)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._at(lambda raw: self.grower.add(Loose(tag, raw, dict(attrs))))

    def handle_endtag(self, tag: str) -> None:
        self._at(lambda raw: self.grower.end(tag, raw))

    def handle_data(self, data: str) -> None:
        self._at(self._add_text)

    def handle_entityref(self, name: str) -> None:
        if name == "nbsp":
            self.grower.root.attributes = {"nbsp": None}
        self._at(lambda raw: self.grower.add(Text(unescape(raw), raw)))

    def handle_charref(self, name: str) -> None:
        self._at(lambda raw: self.grower.add(Text(unescape(raw), raw)))

    def handle_comment(self, data: str) -> None:
        self._at(lambda raw: self.grower.add(Loose("", raw)))

    def handle_decl(self, decl: str) -> None:
        self._at(lambda raw: self.grower.add(Loose("!", raw)))

    def handle_pi(self, data: str) -> None:
        self._at(lambda raw: self.grower.add(Loose("", raw)))

    def unknown_decl(self, data: str) -> None:
        self._at(lambda raw: self.grower.add(Loose("", raw)))


def _without_open_ends(text: str) -> str:
    """Returns the text with blanks for the beginnings of comments and sections that nothing ends.

    The parser would look for the end of each one, through all the text behind it.
    """
    for beginning, ending in OPEN_ENDED:
        last = max((match.end() for match in ending.finditer(text)), default=0)
        text = text[:last] + beginning.sub(lambda match: " " * len(match.group()), text[last:])
    return text


def read_html_tree(text: str, deepest: int) -> Element:
    """Returns the tree of a document or of a part of one; wrong markup stays as it is."""
    try:
        return _HtmlReader(text, deepest).grower.root
    except AssertionError as problem:
        raise UserError(f"HTML: {problem}") from None


def read_xml_tree(text: str, deepest: int) -> Element:
    """Returns the tree of well-formed XML, a document or a part of one, in a root of ours."""
    grower = _Grower("XML", deepest)
    head = f"<{ROOT}>"
    declaration = ""
    if text.startswith("<?xml") and "?>" in text:
        declaration = text[: text.index("?>") + 2]
        text = text[len(declaration) :]
        grower.add(Loose("!", declaration))
    if text.lstrip().startswith("<!DOCTYPE"):
        raise UserError("XML: a document type is not accepted, since it can define entities")
    content = f"{head}{text}</{ROOT}>".encode()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = False
    waiting: list[Callable[[str], None]] = []
    since = 0

    def at(event: Callable[[str], None] | None) -> None:
        nonlocal since
        place = parser.CurrentByteIndex
        if waiting:
            waiting.pop()(content[since:place].decode())
        since = place
        if event is not None:
            waiting.append(event)

    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth

        def event(raw: str) -> None:
            if raw.endswith("/>"):
                grower.add(Loose(name, raw, attributes))
            else:
                grower.start(Element(name, raw, attributes))

        at(event if depth else None)
        depth += 1
        if depth > deepest + 1:
            raise UserError(f"XML: elements are nested deeper than {deepest}")

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        at((lambda raw: grower.end(name, raw) if raw else None) if depth else None)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda data: at(lambda raw: grower.add(Text(data, raw)))
    parser.CommentHandler = lambda data: at(lambda raw: grower.add(Loose("", raw)))
    parser.ProcessingInstructionHandler = lambda *_: at(lambda raw: grower.add(Loose("", raw)))
    parser.StartCdataSectionHandler = lambda: at(lambda raw: grower.add(Text("", raw)))
    parser.EndCdataSectionHandler = lambda: at(lambda raw: grower.add(Text("", raw)))
    try:
        parser.Parse(content, True)
    except expat.ExpatError as problem:
        line, column = problem.lineno, problem.offset - (len(head) if problem.lineno == 1 else 0)
        what = expat.ErrorString(problem.code)
        raise UserError(f"XML: {what} (line {line}, column {max(0, column) + 1})") from None
    return grower.root
