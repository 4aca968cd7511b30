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

COUNT, SAMPLE = 2000, 20
WORDS = ["the", "dog", "sees", "old", "men", "who", "read", "books", "in", "their", "house", "and", "sleeps", "today"]
LONE = ("42", "{name}", "%s", "$5.00", "3.5 kg", "https://a.example/b")
AFTER = (" ", " ", " ", " ", ". ", ", ", "; ", "? ")
STAND_INS = StandIns(tuple((name, (name,)) for name in NAMES), (("three", ("drei",)), ("four", ("vier",))))
Item = str | tuple[str, "list[Item]"]  # text, or a unit with what is in it
UNIQUE = f"(?i:{'|'.join(WORDS)})(?:[bcdfgklmnprst][aeiou]){{4}}"
SPECIALS = {  # what is text in one format and markup in another
    "html": ("&amp;", "&lt;", "&nbsp;", "&#8226;", "$x_{1}$", "$$a+b$$", "\\n"),
    "xml": ("&amp;", "&lt;", "&#8226;", "$x_{1}$", "$$a+b$$", "\\n"),
    "markdown": ("&amp;", "\\*", "\\_", "\\#", "$x_{1}^*$ a $y^*$", "$$a\\,b$$", "\\[", "&#8226;"),
    "text": ("&#8226;", "&amp;", "$x_{1}$", "$$a+b$$", "\\n", "&#10;"),
}


def draw(chance: random.Random, depth: int = 0, kind: str = "") -> list[Item]:
    """Returns a passage; of a `kind` in SPECIALS with all that a format has, and no word twice."""
    items: list[Item] = []
    for _ in range(chance.randint(1, 5 - depth)):
        pick = chance.random()
        if pick < 0.55 or depth > 2:
            word = chance.choice(WORDS) if chance.random() < 0.85 else chance.choice(LONE)
            if kind and word in WORDS:
                word += "".join(chance.choice("bcdfgklmnprst") + chance.choice("aeiou") for _ in range(4))
            items.append(word.capitalize() if chance.random() < 0.3 and word.isalpha() else word)
        elif pick < 0.75:
            items.append((chance.choice(("bold", "italic", "link")), draw(chance, depth + 1, kind)))
        elif pick < 0.85:
            items += [*chance.choice(("m", "H", "10", "dog", "sleeps.")), (chance.choice(("raised", "bold")), ["2"])]
        elif pick < 0.92:
            items.append((chance.choice(("image", "note")), []))
        elif kind and pick < 0.95:
            items += [" ", (chance.choice(("kept", "break")), []), " "]
            if items[-2][0] == "kept":
                items[-2] = ("kept", [*draw(chance, 3, kind), " ", ("free", draw(chance, 3, kind)), " "])
        elif kind and pick < 0.97:
            items += [" ", ("raw", [chance.choice(SPECIALS[kind])]), " "]
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
            out.append(opening + render(item[1], elements, str if item[0] == "raw" else write) + closing)
    return "".join(out)


def of(**elements: str) -> dict[str, tuple[str, str]]:
    """Returns start and end tags by kind of unit: `b` stands for <b> and </b>, `x/` for <x/>."""
    found = {"raw": ("", "")}
    for kind, tag in elements.items():
        name = tag.split(" ", maxsplit=1)[0]
        found[kind] = (f"<{tag}>", "") if tag.endswith("/") else (f"<{tag}>", f"</{name}>")
    return found


ISLANDS = {"kept": "span translate='no'", "free": "i translate='yes'", "break": "br/"}
HTML = of(
    bold="b", italic="i", link="a href='x'", raised="sup", image="img src=a /", note="wbr /", code="kbd", **ISLANDS
)
XML = of(bold="b", italic="i", link="a h='x'", raised="s", image="x id='1'/", note="y/", code="c", **ISLANDS)
UNITS = of(
    bold="g id='1'", italic="mrk mid='2'", link="g id='3'", raised="g id='4'", image="x id='5'/", note="x id='6'/"
)
UNITS["code"] = ("<ph id='7'>", "</ph>")
MARKDOWN = HTML | {"bold": ("**", "**"), "italic": ("*", "*"), "link": ("[", "](x)"), "image": ("![", "](a.png)")}
SUBTITLE = of(bold="b", italic="i", link="u", raised="font color='red'", image="i", note="i", code="b")
BLOCKS = {  # around passages
    "html": (
        *("<p>{}</p>", "<ul><li>{}<li>{}</ul>", "<table><tr><td>{}</td><td>{}</td></tr></table>", "<pre>{}</pre>"),
        *(
            "<svg><title>{}</title></svg>",
            "<noscript>{}</noscript>",
            "<div translate=no>{} <p translate=yes>{}</p></div>",
        ),
        *(
            "<script>x('<b>')</script><h1>{}</h1>",
            "<textarea>a text</textarea><canvas>{}</canvas>",
            "<!-- a text -->{}",
        ),
    ),
    "xml": (
        "<p>{}</p>",
        "<r><c>{}</c><c>{}</c></r>",
        "<p translate='no'>{}<q translate='yes'>{}</q></p>",
        "<!-- a -->",
    ),
    "markdown": (
        "{}",
        "- {}\n- {}",
        "| {} | {} |\n|---|---|\n| {} | {} |",
        "> {}",
        "# {}",
        "```\na text\n```",
        "1. {}",
    ),
    "text": ("{}", "- {}\n- {}", "a) {}\n(b) {}", "{}\t{}", "| {} | {} |", "1. {}"),
}


def page(chance: random.Random, kind: str) -> str:
    """Returns a document of a few blocks."""
    elements = {"html": HTML, "xml": XML, "markdown": MARKDOWN, "text": XML}[kind]
    blocks = []
    for _ in range(chance.randint(1, 3)):
        block = chance.choice(BLOCKS[kind])
        texts = [render(draw(chance, 1, kind), elements) for _ in range(block.count("{}"))]
        if block.startswith("|"):
            texts = [text.replace("|", "\\|") for text in texts]
        blocks.append(block.replace("{}", "%s") % tuple(texts) if texts else block)
    return "\n\n".join(blocks)


def read(kind: str, source: str) -> tuple[str, Counter[str]]:
    """Returns what a reader sees of a text, and its tags, as other programs read it."""
    if kind == "text":
        return re.sub("<[^>]*>", "", source), Counter(re.findall("<[^>]*>", source))
    if kind == "xml":
        tree = ElementTree.fromstring(f"<r>{source}</r>")
    else:
        if kind == "markdown":
            source = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(source)
        tree = html5lib.parse(source, namespaceHTMLElements=False)
    for element in tree.iter():
        for child in element:
            if not isinstance(child.tag, str) or child.tag in ("script", "style"):
                child.text, child[:] = "", []
    return "".join(tree.itertext()), Counter(str(element.tag) for element in tree.iter())


def mark(word: str) -> str:
    return word if word in NAMES or not any(map(str.isalpha, word)) else f"{word[0]}~{word[1:]}"


def mark_runs(word: str) -> str:
    return re.sub(r"([^\W\d_])([^\W\d_]{4,})", lambda run: run[0] if run[0] in NAMES else f"{run[1]}~{run[2]}", word)


def answer(line: str, short: bool = False) -> Translation:
    """Returns a line with its words marked; `short`: of several sentences only the first."""
    given = re.split(r"(?<=[a-z][.?!]) (?=[A-Z])", line)[0] if short else line
    text = " ".join(map(mark_runs if short else mark, given.split()))
    eye = np.eye(len(given.split()) + 1, len(line.split()) + 1, dtype=np.float32)
    maps = (AttentionMap((*line.split(), END), (*text.split(), END), eye, "l0h0", "output"),)
    return Translation(text, 0.0, [Alternative(text, 0.0)], attention=maps)


def translate(text: str, options: TextOptions, short: bool = False) -> Rebuilt:
    prepared = prepare(text, options, "en", 400, "de")
    prepared.stand_ins = STAND_INS
    while not prepared.finished:
        for asked in pending([prepared]):
            asked.take([answer(line, short) for line in asked.lines])
    return prepared.rebuild()


def characters(text: str) -> Counter[str]:
    return Counter(re.sub(r"[~\s]", "", text))


def whole(source: str, rebuilt: Rebuilt) -> bool:
    """Returns True for an answer that has every character of its source, or says that it has not."""
    return not rebuilt.report["complete"] or characters(rebuilt.text) == characters(source)


def check_page(chance: random.Random, kind: str) -> bool:
    """Checks that every letter which a reader sees was given to the model, is named or is reported, in its order, and
    that no sentence is lost by a model which answers the first of several; returns whether all was translated."""
    source = page(chance, kind)
    split = chance.choice(("on", "on", "off", "nonewlines"))
    rebuilt = translate(source, TextOptions(format=kind, split_sentences=split), short=True)  # type: ignore[arg-type]
    report, (before, tags), (after, new_tags) = rebuilt.report, read(kind, source), read(kind, rebuilt.text)
    named = [entry["text"] for name in ("placeholders", "tags", "returned") for entry in report.get(name, ())]
    named = [*named, *(read(kind, text)[0] for text in named if kind != "xml")]
    marked = [run.replace("~", "") for run in re.findall(r"[^\W\d_~]*(?:~[^\W\d_~]*)+", re.sub(r"[^\w\s~]", "", after))]
    for word in re.findall(UNIQUE, before):
        assert any(word in text for text in [*marked, *named]), (source, rebuilt.text, word)
    assert re.sub(r"[~\s]", "", after) == re.sub(r"\s", "", before), (source, rebuilt.text, split)
    assert tags == new_tags, (source, rebuilt.text)
    assert report["complete"] or report.get("returned"), (source, report)
    return bool(report["complete"])


def passages(count: int, seed: str) -> Iterator[list[Item]]:
    chance = random.Random(seed)
    return (draw(chance) for _ in range(count))


def check_units(count: int, kind: str) -> None:
    """Checks passages in the branches of a plural, or with the codes of XLIFF."""
    for items in passages(count, kind):
        source, options = render(items, UNITS, escape), XLIFF
        if kind == "icu":
            branch = render(items, HTML, escape)
            source, options = f"{{n, plural, one {{{branch}}} other {{# {branch}}}}}", TextOptions(format="html")
        rebuilt = translate(source, options)
        assert whole(source, rebuilt), (source, rebuilt.text)
        if kind == "xliff":
            ElementTree.fromstring(f"<r>{rebuilt.text}</r>")


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
