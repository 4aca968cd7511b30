"""HTML, XML and plain text as runs: blocks become runs, tags inside of sentences move with their words."""

import re
from collections.abc import Sequence
from typing import Any

from dragoman.services.texts.binding import KEYS, bind
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import find_masks, has_letter
from dragoman.services.texts.runs import Form, Mask, Node, Run, Tag
from dragoman.services.texts.trees import (
    VOID,
    Child,
    Element,
    Grower,
    Text,
    find_attributes,
    read_html_tree,
    read_xml_tree,
    source_of,
    walk,
)

# Elements of HTML that stand inside of a sentence; others begin a new one, but for unknown ones with a hyphen.
_INLINE = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i img input ins label mark meter output picture progress q "
    "ruby rb rt rp s small span strike strong sub sup time tspan tt u wbr x g bpt ept ph"
)
INLINE = frozenset(_INLINE.split())
# What is in them is no language, or none to translate; of some nobody sees anything.
UNSEEN = frozenset(("script", "style", "template", "iframe"))
OPAQUE = frozenset(("code", "pre", "kbd", "samp", "var", "math", "textarea", *UNSEEN))
WORDS = frozenset(("code", "kbd", "samp", "var", "math", "x"))  # they stand for a word of their sentence
SHOWN = ("<%=", "<?=", "{{")  # templates that stand for a word
_ARIA = ("label", "description", "placeholder", "roledescription", "valuetext")
ATTRIBUTES = ("alt", "title", "placeholder", "label", *(f"aria-{name}" for name in _ARIA))
DESCRIBED = ("description", "keywords", "author", "og:title", "og:description", "twitter:title", "twitter:description")


def read_html(text: str, options: TextOptions) -> list[Node]:
    """Returns a document or a part of one as runs and what stands between them."""
    tree = read_html_tree(text)
    blanks = "&nbsp;" in text and any(isinstance(node, Text) and "&nbsp;" in node.raw for node in walk(tree))
    form = Form("html", blanks, "&gt;" in text or "]]" in text)
    return Reader(options, form).read(tree)


def read_xml(text: str, options: TextOptions) -> list[Node]:
    """Returns XML, a document or a part of one, as runs and what stands between them."""
    form = Form("xml", greater="&gt;" in text or "]]" in text)
    return Reader(options, form).read(read_xml_tree(text))


def read_plain(text: str, options: TextOptions) -> list[Node]:
    """Returns a plain text as a run; tags that stand in it stay around their words."""
    if "<" not in text:
        return [bind(Run(text, raw=text))]
    return [Reader(options, Form()).run([Text(text, text)], text)]


def _find_tags(children: Sequence[Child], form: Form) -> Sequence[Child]:
    """Returns parts of a tree in which tags that stand in a text, as in &lt;b&gt;, are elements."""
    grower = Grower()
    for child in children:
        text, place = child.text if isinstance(child, Text) else "", 0
        for mask in find_masks(text) if "<" in text else ():
            if mask.kind == "tag":
                before = text[place : mask.start]
                grower.add(Text(before, form.write(before)))
                add_tag(grower, mask.raw, form)
                place = mask.end
        grower.add(Text(text[place:], form.write(text[place:])) if place else child)
    return grower.unwind().children


def add_tag(grower: Grower, raw: str, form: Form, within: str = "") -> None:
    """Adds a tag that stands in a text which is no markup as a whole; it ends nothing outside of `within`."""
    name = re.split(r"[\s.]", raw.strip("</>"), maxsplit=1)[0].lower()  # of subtitles: <c.red>
    written = form.write(raw)
    if raw.startswith("</"):
        grower.end(name, written, within)
    elif not name[:1].isalpha() or raw.endswith("/>") or name in VOID:
        kind = "border" if name == "br" else "tag"
        grower.add(Mask(0, 0, kind, written, anchor=True))
    else:
        grower.start(Element(name, written))


def check_markup(text: str, options: TextOptions) -> None:
    """Reads the tags alone, in a part of the time that the runs take."""
    if options.format in ("html", "xml"):
        (read_html_tree if options.format == "html" else read_xml_tree)(text)


class Reader:
    """Walks a tree: blocks are written as they are, and what stands in them becomes runs."""

    def __init__(self, options: TextOptions, form: Form) -> None:
        self.options = options
        self.form = form
        self.html = form.kind == "html"
        self.named = form.kind in ("html", "markdown")  # its elements are those of HTML
        self.splitting = frozenset(options.splitting_tags)
        self.joining = frozenset(options.non_splitting_tags)
        self.ignored = frozenset(options.ignore_tags)
        self.freed: set[int] = set()  # elements by id: they are kept, but for something in them
        self.blocks: dict[int, bool] = {}  # elements by id: True if one of them holds a block

    def read(self, tree: Element) -> list[Node]:
        """Returns a document or a part of one."""
        return self.content(self.free(tree).children)

    def free(self, tree: Element) -> Element:
        """Returns a tree in which what is translated inside of something that is not stands free."""
        if any(isinstance(node, Element) and _said(node) == "yes" for node in walk(tree)):
            self._free(tree, False)
        return tree

    def _free(self, element: Element, kept: bool) -> bool:
        """Makes units of what is kept around something that is translated; returns True if there is such in it."""
        open_children = set[int]()
        for child in element.children:
            if isinstance(child, Element) and self._free(child, _said(child) == "no" or (kept and not _said(child))):
                open_children.add(id(child))
        if kept and open_children:
            self.freed.add(id(element))
            element.children = [
                child
                if id(child) in open_children or not source_of(child).strip()
                else Mask(0, 0, "element", source_of(child), True, seen=_shows(child))
                for child in element.children
            ]
        return bool(open_children) or not kept

    def content(self, children: Sequence[Child]) -> list[Node]:
        """Returns what is in a block: runs of text with inline elements, between blocks."""
        nodes: list[Node] = []
        inside: list[Child] = []
        mixed = any(isinstance(child, Text) and child.text.strip() for child in children)
        for child in children:
            if self._stands_inside(child, mixed):
                inside.append(child)
                continue
            nodes.append(self.run(inside))
            inside = []
            if isinstance(child, Element) and not self._is_opaque(child):
                nodes += [*self._opening(child), *self.content(child.children), child.closing]
            else:
                nodes.append(self.run([child]))
        nodes.append(self.run(inside))
        return [node for node in nodes if node != ""]

    def run(self, children: Sequence[Child], raw: str = "", parsed: Any = None) -> Node:
        """Returns a part of a sentence, or more, as a run; as it was written if there is nothing to translate."""
        raw = raw or "".join(map(source_of, children))
        children = _find_tags(children, self.form) if self.form.kind in ("text", "xml") else children
        run = Run("", form=self.form, split_lines=not self.html, raw=raw, parsed=parsed)
        text: list[str] = []
        self._add(children, run, text)
        run.text = "".join(text)
        if not (has_letter(run.text) or any(mask.seen for mask in run.masks) or any(unit.inner for unit in run.units)):
            return raw
        for mask in run.masks:  # an element that touches a word is none; snake\\_case is one word
            beside = run.text[max(0, mask.start - 1) : mask.start] + run.text[mask.end : mask.end + 1]
            mask.anchor = mask.anchor or (mask.kind == "element" and any(map(str.isalnum, beside)))
            if mask.kind == "escape" and len(beside) == 2 and beside.isalnum():
                mask.kind, mask.anchor = "code", False
        return bind(run)

    def _add(self, children: Sequence[Child], run: Run, text: list[str], length: int = 0) -> int:
        """Adds parts of a tree to a run and its text; returns the text's length."""
        for child in children:
            if isinstance(child, Text):
                text.append(child.text)
                length += len(child.text)
                continue
            if isinstance(child, Element) and not self._is_unit(child):
                tag = Tag(length, length, child.opening, child.closing, self._translated(child))
                run.tags.append(tag)
                tag.end = length = self._add(child.children, run, text, length)
                continue
            mask = self._unit(child) if isinstance(child, Element) else child
            sign_shown = {"soft": "\n", "border": "\u2029"}.get(mask.kind, mask.raw if mask.raw.isalnum() else "\ufffc")
            mask.start, mask.end = length, length + len(sign_shown)
            run.masks.append(mask)
            text.append(sign_shown)
            length = mask.end
        return length

    def _is_unit(self, child: Element) -> bool:
        """Returns True for an element in which nothing is to be translated."""
        return not child.closing or self._is_opaque(child) or child.children in ([], [Text("", "")])

    def _unit(self, child: Element) -> Mask:
        raw, kind = source_of(child), "element"
        word = self.form.kind == "xml" or (self.named and child.name in WORDS)
        if not child.closing:
            word = raw.startswith(SHOWN) if child.name == "" else word
            word = word and raw.endswith(("/>", "%>", "?>", "}}"))
        elif self._is_opaque(child):
            word = (self.named and child.name in WORDS) or child.name in self.ignored or _said(child) == "no"
            kind = "code" if self.named and child.name in KEYS else kind
        if child.name == "br":
            kind = "border"
        seen = bool(child.closing) and child.name not in UNSEEN and _shows(child)
        return Mask(0, 0, kind, raw, not word, self._translated(child) if not child.closing else (), seen=seen)

    def _stands_inside(self, child: Child, mixed: bool) -> bool:
        """Returns True for what is a part of a sentence."""
        if not isinstance(child, Element):
            return True
        if child.name in ("", "!"):
            return child.name == "" and mixed
        if child.name in self.splitting or self._holds_block(child):
            return False
        if child.name in self.joining or child.name in self.ignored:
            return True
        if self.html:
            return child.name in INLINE or child.name in WORDS or ("-" in child.name and child.name not in OPAQUE)
        return mixed or not self.options.outline_detection

    def _holds_block(self, child: Child) -> bool:
        """Returns True if an element inside of this one begins a new sentence."""
        if not isinstance(child, Element) or self._is_opaque(child):
            return False
        if id(child) not in self.blocks:
            self.blocks[id(child)] = any(
                not self._stands_inside(child_of_child, mixed=True) for child_of_child in child.children
            )
        return self.blocks[id(child)]

    def _is_opaque(self, child: Element) -> bool:
        said = _said(child)
        named = child.name in self.ignored or (self.named and child.name in OPAQUE and said != "yes")
        return named or (said == "no" and id(child) not in self.freed)

    def _translated(self, child: Element) -> list[Node]:
        """Returns a start tag with its attributes as runs; nothing if there is none to translate."""
        opening = self._opening(child)
        return opening if any(isinstance(node, Run) for node in opening) else []

    def _opening(self, child: Element) -> list[Node]:
        raw = child.opening
        if not self.named or raw.startswith("</") or not child.name.strip("!*") or id(child) in self.freed:
            return [raw]
        nodes: list[Node] = []
        place = 0
        for name, begin, end, value in find_attributes(raw):
            if self._is_text(child, name) and has_letter(value):
                text = bind(Run(value, form=Form("attribute"), split_lines=False))
                quote = '"' * (raw[begin - 1] not in "\"'")
                nodes += [raw[place:begin] + quote, text, quote]
                place = end
        return [*nodes, raw[place:]]

    def _is_text(self, child: Element, name: str) -> bool:
        """Returns True for an attribute that is translated."""
        if child.name == "meta" and name == "content":
            return (child.attributes.get("name") or child.attributes.get("property")) in DESCRIBED
        if child.name == "input" and name == "value":
            return child.attributes.get("type", "").lower() in ("submit", "button", "reset")
        return name in ATTRIBUTES


def _said(child: Element) -> str:
    """Returns yes or no: whether an element says of itself that it is to be translated; "" if it says nothing."""
    said = child.attributes.get("translate", "").lower()
    kept = child.attributes.get("mtype") == "protected" or "notranslate" in child.attributes.get("class", "").split()
    return "no" if kept else said if said in ("yes", "no") else ""  # mtype is of XLIFF 1.2


def _shows(child: Child) -> bool:
    """Returns True if there are letters in a part of a tree."""
    return any(isinstance(node, Text) and has_letter(node.text) for node in walk(child))
