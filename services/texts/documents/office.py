"""Word and PowerPoint: runs with formatting, in hyperlinks and other elements.

Neighbouring runs of one formatting are one; the formatting that most letters of a paragraph have needs no tags.
"""

import copy
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from lxml import etree

from dragoman.services.texts.documents.archive import Archive
from dragoman.services.texts.documents.document import Document, DocumentError
from dragoman.services.texts.documents.inline import Group, Inline, Paragraphs, Thing, clear
from dragoman.services.texts.documents.xml import XML_SPACE, Node, children_of, clean, copy_empty, read_xml

STRICT_SPACES = "http://purl.oclc.org/ooxml/"
RELATIONS = "_rels/.rels"
HYPHEN = "\u2011"


class Names:
    """The elements of a format, with their namespace. Groups of them are given as words."""

    def __init__(
        self, space: str, first: str, last: str, around: str, borders: str, dropped: str, unseen: str, word: bool
    ) -> None:
        """`first` and `last`: properties of a paragraph, which stay there; `around`: elements around runs; `borders`:
        elements at which a sentence ends; `dropped`: what only an editor needs (spelling marks, page breaks as last
        seen); `unseen`: attributes and elements of a formatting that nobody sees; `word`: the format of Word.
        """
        self.paragraph, self.run, self.properties, self.text = (space + name for name in ("p", "r", "rPr", "t"))
        self.first, self.last, self.around, self.borders, self.dropped = (
            frozenset(space + name for name in words.split()) for words in (first, last, around, borders, dropped)
        )
        self.unseen = frozenset((*unseen.split(), *(space + name for name in unseen.split())))
        self.hyphen = f"{space}noBreakHyphen" if word else ""  # one at which no line breaks
        self.field_mark = f"{space}fldChar" if word else ""  # begins and ends a field
        self.field_kind = f"{space}fldCharType"  # its attribute
        self.preserve = word  # blanks at a text's ends need xml:space


@dataclass(frozen=True)
class Format:
    """The formatting of text: the properties of a run."""

    key: str
    properties: Node  # None: there are none


@dataclass(frozen=True)
class RunPart:
    """Something in a run that is no text, with the run's formatting."""

    style: Format
    what: Node  # or a text that is a border


@dataclass(frozen=True)
class FieldEnds:
    """A field: what stands before its shown text, and after it."""

    before: Sequence[Inline]
    after: Sequence[Inline]


@dataclass
class _Reader:
    names: Names
    formats: dict[str, Format] = field(default_factory=dict)

    def items(self, parent: Node) -> list[Inline]:
        """Returns what is in a paragraph or in an element around runs; a formatting is a group around its text."""
        content: list[Inline] = []
        for child in list(children_of(parent)):
            if child.tag in self.names.first or child.tag in self.names.last or child.tag in self.names.dropped:
                continue
            if child.tag == self.names.run:
                self._run(child, content)
            elif child.tag in self.names.around:
                content.append(Group(child, self.items(child)))
            else:
                content.append(Thing(child, child.tag in self.names.borders))
        return self._fields(content)

    def _run(self, run: Node, content: list[Inline]) -> None:
        style = self._format(run.find(self.names.properties))
        for child in list(children_of(run)):
            if child.tag == self.names.properties or child.tag in self.names.dropped:
                continue
            if child.tag not in (self.names.text, self.names.hyphen):
                content.append(Thing(RunPart(style, child), child.tag in self.names.borders))
                continue
            text = child.text or "" if child.tag == self.names.text else HYPHEN
            for piece in re.split(r"(\t)" if self.names.preserve else r"([\t\n])", text):
                if piece in ("\t", "\n"):
                    content.append(Thing(RunPart(style, piece), border=True))
                if not piece.strip("\t\n"):
                    continue
                last = content[-1] if content else None
                if isinstance(last, Group) and last.what is style:
                    last.inside.append(piece)
                else:
                    content.append(Group(style, [piece]))

    def _format(self, properties: Node) -> Format:
        if properties is None:
            return self.formats.setdefault("", Format("", None))
        seen = _copy(properties)
        for child in list(seen):
            if child.tag in self.names.unseen:
                seen.remove(child)
        for name in self.names.unseen & set(seen.attrib):
            del seen.attrib[name]
        key = etree.tostring(seen, method="c14n").decode() if len(seen) or seen.attrib else ""
        return self.formats.setdefault(key, Format(key, properties))

    def _fields(self, items: list[Inline]) -> list[Inline]:
        """Makes each field one item: a hyperlink a group around its text, another one a thing."""
        if not self.names.field_mark:
            return items
        content: list[Inline] = []
        waiting: list[Inline] = []
        depth = 0
        for item in items:
            kind = self._field_kind(item)
            depth += {"begin": 1, "end": -1}.get(kind, 0)
            if depth < 0:
                raise ValueError("a field of another paragraph")
            if depth or kind:
                waiting.append(item)
            else:
                content.append(item)
            if kind == "end" and not depth:
                content.append(self._field(waiting))
                waiting = []
        if depth:
            raise ValueError("a field that goes on")
        return content

    def _field(self, items: list[Inline]) -> Inline:
        kinds = [self._field_kind(item) for item in items]
        if kinds.count("separate") == 1 and "HYPERLINK" in "".join(_text_of(item) for item in items):
            place = kinds.index("separate")
            inside = items[place + 1 : -1]
            return Group(FieldEnds(items[: place + 1], items[-1:]), inside)
        return Thing(tuple(items))

    def _field_kind(self, item: Inline) -> str:
        what: Node = item.what.what if isinstance(item, Thing) and isinstance(item.what, RunPart) else None
        marked = etree.iselement(what) and what.tag == self.names.field_mark
        return str(what.get(self.names.field_kind)) if marked else ""


def _text_of(item: Inline) -> str:
    """Returns the text inside of a thing in a run: a field's instruction."""
    what: Node = item.what.what if isinstance(item, Thing) and isinstance(item.what, RunPart) else None
    return "".join(what.itertext()) if etree.iselement(what) else ""


def _copy(element: Node) -> Node:
    copied = copy.deepcopy(element)
    copied.tail = None
    return copied


def main_format(items: Sequence[Inline]) -> Format | None:
    """Returns the formatting of most letters; None if there is no text."""
    letters: Counter[Format] = Counter()
    for item in items:
        if isinstance(item, Group) and isinstance(item.what, Format):
            letters[item.what] += sum(len(text) for text in item.inside if isinstance(text, str))
    return max(letters, key=lambda letter: letters[letter], default=None)


def without(items: Sequence[Inline], bases: dict[int, Format | None], depth: int = 0) -> list[Inline]:
    """Returns the items, with no group around text of the main formatting of its element.

    `bases` gets the main formatting by the id of the group's element, 0 for the paragraph's.
    """
    base = main_format(items)
    bases[depth] = base
    rest: list[Inline] = []
    for item in items:
        if not isinstance(item, Group):
            rest.append(item)
        elif not isinstance(item.what, Format):
            rest.append(Group(item.what, without(item.inside, bases, id(item.what))))
        elif item.what is base:
            rest += item.inside
        else:
            rest.append(item)
    return rest


class _Writer:
    def __init__(self, names: Names, bases: dict[int, Format | None]) -> None:
        self.names = names
        self.bases = bases

    def write(self, items: Sequence[Inline], style: Format | None = None) -> list[Node]:
        """Returns the elements of items."""
        nodes: list[Node] = []
        for item in items:
            if isinstance(item, str):
                nodes.append(self._run(item, style))
            elif isinstance(item, Group) and isinstance(item.what, Format):
                nodes += self.write(item.inside, item.what)
            elif isinstance(item, Group):
                inside = self.write(item.inside, self.bases.get(id(item.what)) or style)
                if isinstance(item.what, FieldEnds):
                    nodes += [*self.write(item.what.before), *inside, *self.write(item.what.after)]
                else:
                    around = copy_empty(item.what)
                    around.extend([node for node in item.what if node.tag in self.names.first])
                    around.extend(inside)
                    nodes.append(around)
            elif isinstance(item.what, RunPart) and isinstance(item.what.what, str):
                nodes.append(self._run(item.what.what, item.what.style))
            elif isinstance(item.what, RunPart):
                nodes.append(self._wrap([item.what.what], item.what.style))
            elif isinstance(item.what, tuple):
                nodes += self.write(item.what)
            else:
                nodes.append(item.what)
        return nodes

    def _run(self, text: str, style: Format | None) -> Node:
        elements: list[Node] = []
        for number, piece in enumerate(text.split(HYPHEN) if self.names.hyphen else [text]):
            if number:
                elements.append(etree.Element(self.names.hyphen))
            if piece:
                elements.append(etree.Element(self.names.text))
                elements[-1].text = clean(piece)
                if self.names.preserve and piece != piece.strip():
                    elements[-1].set(XML_SPACE, "preserve")
        return self._wrap(elements, style)

    def _wrap(self, elements: Sequence[Node], style: Format | None) -> Node:
        run = etree.Element(self.names.run)
        if style is not None and style.properties is not None:
            run.append(_copy(style.properties))
        run.extend(elements)
        return run


@dataclass(frozen=True)
class Kind:
    """A format: how its elements and its parts are called."""

    names: Names
    strict: Names  # of its ISO variant
    main: str  # its first part, unless the relations of the archive say another name
    member: re.Pattern[str]  # the parts that hold paragraphs


def read_office(kind: Kind, content: bytes) -> Document:
    """Returns a document of Microsoft's formats."""
    archive = Archive(content)
    first = _main_part(archive, kind.main)
    paragraphs = Paragraphs(archive)
    for name in (name for name in archive.names if name == first or kind.member.fullmatch(name)):
        names = kind.strict if STRICT_SPACES.encode() in archive.read(name) else kind.names
        for element in list(paragraphs.tree(name).iter(names.paragraph)):
            bases: dict[int, Format | None] = {}
            with suppress(ValueError):  # a table of contents, which the program makes again
                paragraphs.add(without(_Reader(names).items(element), bases), partial(_fill, element, names, bases))
    return paragraphs.document()


def _fill(element: Node, names: Names, bases: dict[int, Format | None], items: Sequence[Inline]) -> None:
    first = [child for child in element if child.tag in names.first]
    last = [child for child in element if child.tag in names.last]
    clear(element).extend([*first, *_Writer(names, bases).write(items, bases[0]), *last])


def _main_part(archive: Archive, main: str) -> str:
    """Returns the name of the first part."""
    named = [name for name in archive.names if re.fullmatch(rf"{main}\d*\.xml", name)]
    if RELATIONS in archive.names:
        relations = read_xml(archive.read(RELATIONS), RELATIONS).getroot()
        targets = [
            str(relation.get("Target"))
            for relation in relations
            if str(relation.get("Type")).endswith("/officeDocument")
        ]
        folder = main.partition("/")[0]
        named = [name for name in (target.lstrip("/") for target in targets) if name.startswith(folder)] or named
    if not named or named[0] not in archive.names:
        raise DocumentError(f"{main}.xml is missing in the zip archive: it is another kind of file")
    return named[0]


def _names(space: str, schema: str) -> Names:
    """Returns the names of Word's elements, or of a slide's."""
    uri = f"{{{space}{schema}/main}}"
    if schema.startswith("word"):
        return Names(
            uri,
            first="pPr sdtPr sdtEndPr smartTagPr customXmlPr",
            last="",
            around="hyperlink ins moveTo smartTag sdt sdtContent customXml dir bdo",
            borders="tab br cr ptab",
            dropped="proofErr lastRenderedPageBreak softHyphen",
            unseen="lang noProof",
            word=True,
        )
    unseen = "lang altLang dirty err noProof smtClean smtId"
    return Names(uri, "pPr", "endParaRPr", around="", borders="br", dropped="", unseen=unseen, word=False)


SPACES = "http://schemas.openxmlformats.org/"
WORD = Kind(  # the text, its headers, footers, notes, comments and text boxes
    _names(SPACES, "wordprocessingml/2006"),
    _names(STRICT_SPACES, "wordprocessingml"),
    "word/document",
    re.compile(r"word/(document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml"),
)
POWERPOINT = Kind(  # the slides, their notes, diagrams and titles of charts
    _names(SPACES, "drawingml/2006"),
    _names(STRICT_SPACES, "drawingml"),
    "ppt/presentation",
    re.compile(r"ppt/(slides/slide\d+|notesSlides/notesSlide\d+|diagrams/(data|drawing)\d+|charts/chart\d+)\.xml"),
)
read_docx: Callable[[bytes], Document] = partial(read_office, WORD)
read_pptx: Callable[[bytes], Document] = partial(read_office, POWERPOINT)
