"""Checks every answer: read again, it has what its source has, each once and in a valid nesting."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from markdown_it.token import Token

from dragoman.model.errors import UserError
from dragoman.services.texts.markdown import SPECIAL, read_inline
from dragoman.services.texts.markup import ATTRIBUTES
from dragoman.services.texts.protected import find_masks
from dragoman.services.texts.runs import Run
from dragoman.services.texts.trees import Element, Text, read_html_tree, read_xml_tree, walk

TRANSLATED = frozenset((*ATTRIBUTES, "content", "value"))
_MARKS = frozenset("*_[]<>&`~\\!#|")  # with which Markdown is written


class Shape(NamedTuple):
    """The units of a written run, those of them with nothing inside, and the text that a reader sees."""

    units: Counter[str]
    empty: Counter[str]
    text: str


Event = tuple[str, str]  # open, close, unit, text; and which


def find_problem(run: Run, text: str, flat: str) -> str:
    """Returns what is wrong with the translation of a run: a few words; empty if nothing is. `flat`: without tags."""
    kind = run.form.kind
    if kind == "attribute" or not (run.tags or (kind == "markdown" and not _MARKS.isdisjoint(text))):
        return ""
    try:
        whole = 0, len(run.text), run.tags
        before = _read_shape(run, run.raw or run.source(*whole), source=True)
        glued = any(mask.kind == "glued" for mask in run.masks)
        if glued and _read_shape(run, run.source(*whole)).text != before.text:
            return "text would stand twice or be lost"
        after, plain = _read_shape(run, text), _read_shape(run, flat)
    except UserError:
        return "its markup could not be read"
    if after.units != before.units:
        return "its tags would be others"
    if after.empty - before.empty:
        return "an element would be empty"
    return "" if Counter(after.text) == Counter(plain.text) else "text would stand twice or be lost"


def _read_shape(run: Run, raw: str, source: bool = False) -> Shape:
    """Returns the shape of a run as it is written; `source`: as its parser has read it before."""
    units, empty = Counter[str](), Counter[str]()
    text: list[str] = []
    waiting: list[tuple[str, int]] = []
    filled = 0
    if run.form.kind == "markdown":
        tokens, references, read = run.parsed
        for written, text_read in read.items():
            raw = raw.replace(written, text_read)
        events = _read_markdown(tokens if source and tokens else read_inline(raw, references))
    else:
        xml = run.form.kind == "xml"
        events = _read_tree(read_xml_tree(raw) if xml else read_html_tree(raw), escaped=xml)
    for event, what in events:
        if event == "open":
            waiting.append((what, filled))
        elif event == "close":
            opening, before = waiting.pop()
            units[opening + what] += 1
            empty[opening] += filled == before
        elif event == "unit":
            units[what] += 1
            filled += 1
        elif what.strip():
            text += what.split()
            filled += 1
    return Shape(units, empty, "".join(text))


def _read_tree(root: Element, escaped: bool) -> Iterable[Event]:
    """Yields what is in a tree; `escaped`: tags in its text, as in &lt;b&gt;, are units."""
    for node in walk(root):
        if node is root or node == "":
            continue
        if isinstance(node, Element):
            yield "open" if node.closing else "unit", _key(node)
        elif isinstance(node, Text):
            tags = (
                [mask for mask in find_masks(node.text) if mask.kind == "tag"] if escaped and "<" in node.text else []
            )
            yield from (("unit", mask.raw) for mask in tags)
            yield "text", "".join(Run(node.text, tags).outside(0, len(node.text)))
        elif isinstance(node, str):
            yield "close", node


def _key(node: Element) -> str:
    """Returns a tag without its attributes that are translated."""
    if TRANSLATED.isdisjoint(node.attributes):
        return node.opening
    return f"{node.name} {sorted((name, value) for name, value in node.attributes.items() if name not in TRANSLATED)}"


def _read_markdown(tokens: Iterable[Token]) -> Iterable[Event]:
    for token in tokens:
        if token.nesting:
            yield ("open" if token.nesting > 0 else "close"), f"{token.markup} {token.attrs or ''}"
        elif token.type == "text" or (token.type == "text_special" and not SPECIAL.search(token.content)):
            yield "text", token.content
        elif token.type == "image":
            yield "unit", f"image {token.attrGet('src')}"
        elif token.type == "html_inline":
            yield "unit", _key(Element(token.content.split()[0], token.content))
        elif token.type not in ("softbreak", "hardbreak"):
            yield "unit", token.content
