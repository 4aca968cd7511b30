"""Passages of text and units in every format, with a translator that marks each word, and what makes one whole."""

import io
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from xml.etree import ElementTree

import html5lib
import numpy as np
import polib
from lxml import etree
from markdown_it import MarkdownIt

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.documents.kinds import read_document
from dragoman.services.texts.documents.xliff import OPTIONS as XLIFF
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import Rebuilt, pending, prepare
from dragoman.services.texts.stand_ins import NAMES, StandIns

COUNT, SAMPLE = 2000, 100
WORDS = ["the", "dog", "sees", "old", "men", "who", "read", "books", "in", "their", "house", "and", "sleeps", "today"]
LONE = ("42", "{name}", "%s", "$5.00", "3.5 kg", "https://a.example/b")
AFTER = (" ", " ", " ", " ", ". ", ", ", "; ", "? ")
STAND_INS = StandIns(tuple((name, (name,)) for name in NAMES), (("three", ("drei",)), ("four", ("vier",))))
Item = str | tuple[str, "list[Item]"]  # text, or a unit with what is in it


def draw(chance: random.Random, depth: int = 0) -> list[Item]:
    """Returns a passage."""
    items: list[Item] = []
    for _ in range(chance.randint(1, 5 - depth)):
        kind = chance.random()
        if kind < 0.55 or depth > 2:
            word = chance.choice(WORDS) if chance.random() < 0.85 else chance.choice(LONE)
            items.append(word.capitalize() if chance.random() < 0.3 and word in WORDS else word)
        elif kind < 0.75:
            items.append((chance.choice(("bold", "italic", "link")), draw(chance, depth + 1)))
        elif kind < 0.85:
            items += [*chance.choice(("m", "H", "10", "dog", "sleeps.")), (chance.choice(("raised", "bold")), ["2"])]
        elif kind < 0.92:
            items.append((chance.choice(("image", "note")), []))
        else:
            items += [("code", ["Ctrl"]), "+", ("code", ["C"])]
        items.append("" if chance.random() < 0.15 else chance.choice(AFTER))
    return items


def render(items: list[Item], elements: dict[str, tuple[str, str]], write: Callable[[str], str] = str) -> str:
    out = []
    for item in items:
        if isinstance(item, str):
            out.append(write(item))
        else:
            opening, closing = elements[item[0]]
            out.append(opening + render(item[1], elements, write) + closing)
    return "".join(out)


def of(**elements: str) -> dict[str, tuple[str, str]]:
    """Returns start and end tags by kind of unit: `b` stands for <b> and </b>, `x/` for <x/>."""
    found = {}
    for kind, tag in elements.items():
        name = tag.split(" ", maxsplit=1)[0]
        found[kind] = (f"<{tag}>", "") if tag.endswith("/") else (f"<{tag}>", f"</{name}>")
    return found


HTML = of(bold="b", italic="i", link="a href='x'", raised="sup", image="img src=a /", note="wbr /", code="kbd")
XML = of(bold="b", italic="i", link="a h='x'", raised="s", image="x id='1'/", note="y/", code="c")
UNITS = of(
    bold="g id='1'", italic="mrk mid='2'", link="g id='3'", raised="g id='4'", image="x id='5'/", note="x id='6'/"
)
UNITS["code"] = ("<ph id='7'>", "</ph>")
MARKDOWN = HTML | {"bold": ("**", "**"), "italic": ("*", "*"), "link": ("[", "](x)"), "image": ("![", "](a.png)")}
SUBTITLE = of(bold="b", italic="i", link="u", raised="font color='red'", image="i", note="i", code="b")


def mark(word: str) -> str:
    return word if word in NAMES or not any(map(str.isalpha, word)) else f"{word[0]}~{word[1:]}"


def answer(line: str) -> Translation:
    text = " ".join(map(mark, line.split()))
    eye = np.eye(len(line.split()) + 1, dtype=np.float32)
    maps = (AttentionMap((*line.split(), END), (*text.split(), END), eye, "l0h0", "output"),)
    return Translation(text, 0.0, [Alternative(text, 0.0)], attention=maps)


def translate(text: str, options: TextOptions) -> Rebuilt:
    prepared = prepare(text, options, "en", 400, "de")
    prepared.stand_ins = STAND_INS
    while not prepared.finished:
        for asked in pending([prepared]):
            asked.take([answer(line) for line in asked.lines])
    return prepared.rebuild()


def characters(text: str) -> Counter[str]:
    return Counter(re.sub(r"[~\s]", "", text))


def whole(source: str, rebuilt: Rebuilt) -> bool:
    """Returns True for an answer that has every character of its source, or says that it has not."""
    return not rebuilt.report["complete"] or characters(rebuilt.text) == characters(source)


def passages(count: int, seed: str) -> Iterator[list[Item]]:
    chance = random.Random(seed)
    return (draw(chance) for _ in range(count))


def check_texts(count: int, kind: str) -> Counter[bool]:
    """Returns how many passages of a text format came back translated (True) and as they were, with a report."""
    seen: Counter[bool] = Counter()
    for items in passages(count, kind):
        if kind == "markdown":
            source, options = render(items, MARKDOWN), TextOptions(format="markdown")
        elif kind == "icu":
            branch = render(items, HTML, escape)
            source, options = f"{{n, plural, one {{{branch}}} other {{# {branch}}}}}", TextOptions(format="html")
        elif kind == "text":
            source, options = render(items, XML), TextOptions()
        else:
            elements, options = {
                "html": (HTML, TextOptions(format="html")), "xml": (XML, TextOptions(format="xml")),
                "xliff": (UNITS, XLIFF),
            }[kind]  # fmt: skip
            source = render(items, elements, escape)
        rebuilt = translate(source, options)
        assert whole(source, rebuilt), (source, rebuilt.text)
        seen[rebuilt.report["complete"]] += 1
        if kind in ("xml", "xliff"):
            ElementTree.fromstring(f"<r>{rebuilt.text}</r>")
        elif kind == "html":
            assert tags(html5lib.parse(rebuilt.text)) == tags(html5lib.parse(source)), (source, rebuilt.text)
        elif kind == "markdown" and rebuilt.report["complete"]:
            first, second = (MarkdownIt().render(one) for one in (source, rebuilt.text))
            assert Counter(re.findall("<[^>]*>", first)) == Counter(re.findall("<[^>]*>", second)), (
                source,
                rebuilt.text,
            )
    return seen


def tags(tree: ElementTree.Element) -> Counter[str]:
    return Counter(str(one.tag) for one in tree.iter())


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
T = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def packed(members: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return out.getvalue()


def runs(items: list[Item], space: str, style: str = "") -> str:
    """Returns a paragraph of Microsoft's formats."""
    out = []
    for item in items:
        if isinstance(item, str):
            keep = ' xml:space="preserve"' if space == "w" else ""
            out.append(f"<{space}:r>{style}<{space}:t{keep}>{escape(item)}</{space}:t></{space}:r>" if item else "")
        elif item[0] in ("image", "note"):
            out.append(f"<w:r>{style}<w:footnoteReference/></w:r>" if space == "w" else "")
        elif item[0] == "link" and space == "w":
            out.append(f"<w:hyperlink>{runs(item[1], space, style)}</w:hyperlink>")
        else:
            look = f"<w:{item[0]}/>" if space == "w" else ""
            more = "" if space == "w" else f' {item[0]}="1"'
            out.append(runs(item[1], space, f"<{space}:rPr{more}>{look}</{space}:rPr>"))
    return "".join(out)


ODT = of(bold="t:span t:s='b'", italic="t:span t:s='i'", link="t:a h='x'", raised="t:span t:s='r'", image="t:image/")
ODT |= of(note="t:note/", code="t:span t:s='k'")
PO = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: nplurals=2; plural=n!=1;\\n"\n'


def make(kind: str, texts: list[list[Item]]) -> bytes:
    """Returns a document of these passages."""
    if kind == ".docx":
        body = "".join(f"<w:p>{runs(items, 'w')}</w:p>" for items in texts)
        return packed({"word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'})
    if kind == ".pptx":
        body = "".join(f"<a:p>{runs(items, 'a')}</a:p>" for items in texts)
        return packed({"ppt/presentation.xml": "<p/>", "ppt/slides/slide1.xml": f'<s xmlns:a="{A}">{body}</s>'})
    if kind == ".odt":
        body = "".join(f"<t:p>{render(items, ODT, escape)}</t:p>" for items in texts)
        mimetype = "application/vnd.oasis.opendocument.text"
        return packed({"mimetype": mimetype, "content.xml": f'<d xmlns:t="{T}">{body}</d>'})
    if kind == ".po":
        rows = (f'msgid "{number}: {render(items, XML)}"\nmsgstr ""\n' for number, items in enumerate(texts))
        return "\n".join([PO, *rows]).encode()
    stop = "," if kind == ".srt" else "."
    times = (f"{number}\n00:00:01{stop}000 --> 00:00:02{stop}000\n" for number in range(len(texts)))
    lines = (render(items, SUBTITLE).strip() or "x" for items in texts)
    cues = "\n".join(time + line + "\n" for time, line in zip(times, lines, strict=True))
    return ((kind == ".vtt") * "WEBVTT\n\n" + cues).encode()


def content(kind: str, document: bytes) -> str:
    """Returns the text of a document as another program reads it."""
    if not document.startswith(b"PK"):
        return document.decode()
    with zipfile.ZipFile(io.BytesIO(document)) as archive:
        name = next(one for one in archive.namelist() if one.endswith(("document.xml", "slide1.xml", "content.xml")))
        return "".join(etree.fromstring(archive.read(name)).itertext())


def check_documents(count: int, kind: str) -> None:
    for number in range(0, count, 20):
        source = make(kind, list(passages(min(20, count), f"{kind} {number}")))
        document = read_document(f"a{kind}", source)
        answers = [translate(passage.text, passage.options) for passage in document.passages]
        for passage, rebuilt in zip(document.passages, answers, strict=True):
            assert whole(passage.text, rebuilt), (passage.text, rebuilt.text)
        if not all(rebuilt.report["complete"] for rebuilt in answers):
            continue
        new = document.write([rebuilt.text for rebuilt in answers], "de")
        before, after = content(kind, source), content(kind, new)
        if kind == ".po":
            entries = list(polib.pofile(after))
            before, after = "".join(one.msgid for one in entries), "".join(one.msgstr or one.msgid for one in entries)
        elif not source.startswith(b"PK"):
            assert re.findall(".*-->.*", before) == re.findall(".*-->.*", after)
        assert characters(before) == characters(after), (before, after)
