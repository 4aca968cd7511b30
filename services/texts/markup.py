"""HTML and XML as runs: blocks become runs, tags inside of sentences move with their words, the rest stays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape

from dragoman.services.texts.binding import DEEPEST, KEYS, bind
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import has_letter
from dragoman.services.texts.runs import Form, Mask, Node, Run, Tag
from dragoman.services.texts.trees import Child, Element, Loose, Text, read_html_tree, read_xml_tree, source_of

# Elements of HTML that stand inside of a sentence; others begin a new one, but for unknown ones with a hyphen.
_INLINE = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i img input ins label mark meter output picture progress q "
    "ruby rb rt rp s small span strike strong sub sup time tt u wbr x g bpt ept ph"
)
INLINE = frozenset(_INLINE.split())
# What is in them is no language, or none to translate.
_OPAQUE = "code pre script style kbd samp var math svg template noscript object iframe canvas audio video textarea map"
OPAQUE = frozenset(_OPAQUE.split())
WORDS = frozenset(("code", "kbd", "samp", "var", "math", "x"))  # they stand for a word of their sentence
SHOWN = ("<%=", "<?=", "{{")  # templates that stand for a word
ATTRIBUTES = ("alt", "title", "placeholder", "aria-label", "aria-description", "label")
DESCRIBED = ("description", "keywords", "author", "og:title", "og:description", "twitter:title", "twitter:description")
BLANKS = " \t\r\n\f"


def read_html(text: str, options: TextOptions) -> list[Node]:
    """Returns a document or a part of one as runs and what stands between them."""
    tree = read_html_tree(text, DEEPEST)
    form = Form("html", "nbsp" in tree.attributes, "&gt;" in text or "]]" in text)
    nodes: list[Node] = []
    _Reader(options, form).content(tree.children, nodes)
    return nodes


def read_xml(text: str, options: TextOptions) -> list[Node]:
    """Returns XML, a document or a part of one, as runs and what stands between them."""
    nodes: list[Node] = []
    form = Form("xml", greater="&gt;" in text or "]]" in text)
    _Reader(options, form).content(read_xml_tree(text, DEEPEST).children, nodes)
    return nodes


def check_markup(text: str, options: TextOptions) -> None:
    """Reads the tags alone, in a part of the time that the runs take."""
    if options.format == "html":
        read_html_tree(text, DEEPEST)
    elif options.format == "xml":
        read_xml_tree(text, DEEPEST)


@dataclass
class _Builder:
    """A run while it is read."""

    form: Form
    text: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    length: int = 0
    masks: list[Mask] = field(default_factory=list)
    tags: list[Tag] = field(default_factory=list)
    level: int = 0

    def add_text(self, text: str) -> None:
        self.text.append(text)
        self.length += len(text)

    def add_mask(self, raw: str, kind: str, anchor: bool, inner: Sequence[Node] = ()) -> None:
        """Adds something that is no text; a character stands for it."""
        shown = raw if raw.isalnum() else "\ufffc"
        self.masks.append(Mask(self.length, self.length + len(shown), kind, raw, anchor, inner))
        self.add_text(shown)

    def flush(self, nodes: list[Node]) -> None:
        """Ends the run."""
        text, raw = "".join(self.text), "".join(self.raw)
        if (
            not has_letter(text)
            and not any(one.inner for one in self.masks)
            and not any(one.inner for one in self.tags)
        ):
            nodes.append(raw)
        else:
            for mask in self.masks:  # what touches a word is none
                beside = text[max(0, mask.start - 1) : mask.start] + text[mask.end : mask.end + 1]
                mask.anchor = mask.anchor or (mask.kind == "element" and any(map(str.isalnum, beside)))
            split_lines = self.form.kind != "html"
            nodes.append(bind(Run(text, self.masks, self.tags, self.form, split_lines, raw=raw)))
        self.text, self.raw, self.length, self.masks, self.tags = [], [], 0, [], []


class _Reader:
    """Walks a tree: blocks are written as they are, and what stands in them becomes runs."""

    def __init__(self, options: TextOptions, form: Form) -> None:
        self.options = options
        self.form = form
        self.html = form.kind == "html"
        self.splitting = frozenset(options.splitting_tags)
        self.joining = frozenset(options.non_splitting_tags)
        self.ignored = frozenset(options.ignore_tags)
        self.blocks: dict[int, bool] = {}  # elements by id: True if one of them holds a block

    def content(self, children: Sequence[Child], nodes: list[Node]) -> None:
        """Adds what is in a block: runs of text with inline elements, between blocks."""
        run = _Builder(self.form)
        mixed = any(isinstance(child, Text) and child.text.strip() for child in children)
        for child in children:
            if self._stands_inside(child, mixed):
                self._inline(child, run)
                run.raw.append(source_of(child))
                continue
            run.flush(nodes)
            if isinstance(child, Element) and not self._is_opaque(child):
                nodes += self._opening(child)
                self.content(child.children, nodes)
                nodes.append(child.closing)
            elif isinstance(child, Loose):
                nodes += self._opening(child)
            else:
                nodes.append(source_of(child))
        run.flush(nodes)

    def _inline(self, child: Child, run: _Builder) -> None:
        if isinstance(child, Text):
            run.add_text(child.text)
        elif isinstance(child, Loose):
            word = child.raw.startswith(SHOWN) if child.name == "" else not self.html or child.name in WORDS
            word = word and child.raw.endswith(("/>", "%>", "?>", "}}"))
            run.add_mask(child.raw, "element", not word, self._translated(child))
        elif self._is_opaque(child):
            word = child.name in self.ignored or _is_untranslated(child) or (self.html and child.name in WORDS)
            run.add_mask(source_of(child), "code" if self.html and child.name in KEYS else "element", not word)
        elif not any(source_of(one) for one in child.children):
            run.add_mask(source_of(child), "element", self.html and child.name not in WORDS)
        else:
            start, place = run.length, len(run.tags)
            run.level += 1
            for one in child.children:
                self._inline(one, run)
            run.level -= 1
            inner = self._translated(child)
            run.tags.insert(place, Tag(start, run.length, child.opening, child.closing, run.level, inner))

    def _stands_inside(self, child: Child, mixed: bool) -> bool:
        """Returns True for what is a part of a sentence."""
        if isinstance(child, Text):
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
            inside = (one for one in child.children if not isinstance(one, Text))
            self.blocks[id(child)] = any(not self._stands_inside(one, mixed=True) for one in inside)
        return self.blocks[id(child)]

    def _is_opaque(self, child: Element) -> bool:
        return child.name in self.ignored or (self.html and child.name in OPAQUE) or _is_untranslated(child)

    def _translated(self, child: Element | Loose) -> list[Node]:
        """Returns a start tag with its attributes as runs; nothing if there is none to translate."""
        found = self._opening(child)
        return found if any(isinstance(node, Run) for node in found) else []

    def _opening(self, child: Element | Loose) -> list[Node]:
        raw = child.opening if isinstance(child, Element) else child.raw
        if not self.html or not child.attributes or raw.startswith("</"):
            return [raw]
        nodes: list[Node] = []
        place = 0
        for name, begin, end, value in _find_values(raw, self._named(child)):
            nodes += [raw[place:begin], _attribute_run(value, name)]
            place = end
        return [*nodes, raw[place:]]

    def _named(self, child: Element | Loose) -> dict[str, str]:
        """Returns the attributes that are translated, with their values."""
        names = [name for name in ATTRIBUTES if name in child.attributes]
        if child.name == "meta" and (child.attributes.get("name") or child.attributes.get("property")) in DESCRIBED:
            names.append("content")
        if child.name == "input" and (child.attributes.get("type") or "").lower() in ("submit", "button", "reset"):
            names.append("value")
        found = ((name, child.attributes.get(name)) for name in names)
        return {name: value for name, value in found if value and has_letter(value)}


def _attribute_run(value: str, name: str) -> Run:
    return bind(Run(value, form=Form("attribute"), split_lines=False, name=name))


def _find_values(raw: str, values: dict[str, str]) -> Iterator[tuple[str, int, int, str]]:
    """Yields name, place and value of quoted attributes in a tag as it was written."""
    place = 0
    while place < len(raw):
        quote = min((at for at in (raw.find('"', place), raw.find("'", place)) if at >= 0), default=-1)
        if quote < 0:
            return
        end = raw.find(raw[quote], quote + 1)
        if end < 0:
            return
        words = raw[place:quote].rstrip(BLANKS + "=").split()
        name = words[-1].lower() if words and "=" in raw[place:quote] else ""
        if name in values and unescape(raw[quote + 1 : end]) == values[name]:
            yield name, quote + 1, end, values[name]
        place = end + 1


def _is_untranslated(child: Element) -> bool:
    said = (child.attributes.get("translate") or "").lower()
    said = "no" if child.attributes.get("mtype") == "protected" else said  # of XLIFF 1.2
    return said == "no" or "notranslate" in (child.attributes.get("class") or "").split()
