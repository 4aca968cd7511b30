"""Passages from a grammar of text and units, in every format, word for word with a perfect alignment.

The translator marks each word, so that an answer without the marks has to be what went in: no unit and no character is
lost, doubled or moved away, unless the report says so.
"""

import io
import random
import re
import shutil
import subprocess
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import html5lib
import numpy as np
import polib
import pytest
from lxml import etree
from markdown_it import MarkdownIt

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.documents.document import DocumentError
from dragoman.services.texts.documents.kinds import read_document
from dragoman.services.texts.documents.xliff import OPTIONS as XLIFF
from dragoman.services.texts.known import KnownTranslations, Match, comparable
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
            elements = {"html": HTML, "xml": XML, "xliff": UNITS}[kind]
            source = render(items, elements, escape)
            options = XLIFF if kind == "xliff" else TextOptions(format=kind)  # type: ignore[arg-type]
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


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("html", "<td>$<b>5</b>.00</td>", "<td>$<b>5</b>.00</td>"),
        ("html", "<p>20 m<sup>2</sup> of house</p>", "<p>20 m<sup>2</sup> o~f h~ouse</p>"),
        ("html", "<p>H<sub>2</sub>O and CO<sub>2</sub></p>", "<p>H<sub>2</sub>O a~nd CO<sub>2</sub></p>"),
        ("html", "<p>The 1<sup>st</sup> dog</p>", "<p>T~he 1<sup>st</sup> d~og</p>"),
        ("html", "<p>The dog<sup>1</sup> sleeps.</p>", "<p>T~he d~og<sup>1</sup> s~leeps.</p>"),
        ("html", "<p>Press <kbd>A</kbd>+<kbd>B</kbd> now.</p>", "<p>P~ress <kbd>A</kbd>+<kbd>B</kbd> n~ow.</p>"),
        ("markdown", "Press <kbd>A</kbd>+<kbd>B</kbd> now.", "P~ress <kbd>A</kbd>+<kbd>B</kbd> n~ow."),
        ("markdown", "It costs $**5**.00 today.", "I~t c~osts $**5**.00 t~oday."),
        ("html", "<p><span>T</span>he dog sleeps.</p>", "<p><span>T</span>~he d~og s~leeps.</p>"),
        ("html", 'She says "<b>I</b> sleep".', 'S~he s~ays "<b>~I</b> s~leep".'),
        ("html", "She is <b>ok</b>... now.", "S~he i~s <b>o~k</b>... n~ow."),
        ("html", "<a href=1>Home</a><a href=2>About us</a>", "<a href=1>H~ome</a><a href=2>A~bout u~s</a>"),
        ("markdown", "[Home](a)[about us](b)", "[H~ome](a)[a~bout u~s](b)"),
        ("html", "<a href=x>The dog</a><span>5</span>", "<a href=x>T~he d~og</a><span>5</span>"),
        ("html", "<p>The <b>dog</b>/<i>man</i> sleeps.</p>", "<p>T~he <b>d~og</b>/<i>man</i> s~leeps.</p>"),
        ("html", "<p>It sleeps.<sup>1</sup> The man.</p>", "<p>I~t s~leeps.<sup>1</sup> T~he m~an.</p>"),
        ("xml", "It sleeps.<x id='1'/>The man.", "I~t s~leeps.<x id='1'/>T~he m~an."),
        ("html", "<p>The <%= name %> dog.</p>", "<p>T~he <%= name %> d~og.</p>"),
        ("html", "<p><?php if ($a->b) ?>The dog</p>", "<p><?php if ($a->b) ?>T~he d~og</p>"),
        ("html", "<p>The {{ a < b }} dog.</p>", "<p>T~he {{ a < b }} d~og.</p>"),
        (
            "html",
            "<p>{n, plural, one {a <b>dog</b>} other {# <b>dogs</b>}}</p>",
            "<p>{n, plural, one {a~ <b>d~og</b>} other {# <b>d~ogs</b>}}</p>",
        ),
        ("xml", "{N, select, a {one dog} other {<x/> dogs}}", "{N, select, a {o~ne d~og} other {<x/> d~ogs}}"),
        ("markdown", '!!! note "A dog"\n    The man.\n', '!!! note "A~ d~og"\n    T~he m~an.\n'),
        ("markdown", "+++\ntitle = 1\n+++\n\nThe man.\n", "+++\ntitle = 1\n+++\n\nT~he m~an.\n"),
        ("markdown", "import A from 'b'\n\nThe man.\n", "import A from 'b'\n\nT~he m~an.\n"),
    ],
)
def test_what_is_one_word_or_two_texts_is_found_before_sentences_are(kind: str, text: str, wanted: str) -> None:
    rebuilt = translate(text, TextOptions(format=kind))  # type: ignore[arg-type]
    assert (rebuilt.text, rebuilt.report["complete"]) == (wanted, True)


@pytest.mark.parametrize(
    "between",
    [". <img src=a>", ".<img src=a> ", ". <wbr>", ". <a id=x></a>", ".<sup><a href=1>1</a></sup> ", ".<sup>[1]</sup> "],
)
def test_a_unit_between_two_sentences_ends_the_first(between: str) -> None:
    page = f"<p>The dog sleeps{between}The man reads.</p>"
    prepared = prepare(page, TextOptions(format="html"), "en", 400, "de")
    assert prepared.lines == ["The dog sleeps.", "The man reads."]


def test_no_link_comes_back_empty() -> None:
    page = "<p>The dog <a href=x>sees</a>, <a href=y>sings</a>, <a href=z>sleeps</a>.</p>"
    prepared = prepare(page, TextOptions(format="html"), "en", 400, "de")
    while prepared.lines:  # the model leaves the words of the links out
        prepared.take([Translation("Der Hund.", 0.0, [Alternative("Der Hund.", 0.0)]) for _ in prepared.lines])
    rebuilt = prepared.rebuild()
    assert rebuilt.report["complete"]
    assert re.findall(r"<a href=(\w)>[^<]+</a>", rebuilt.text) == ["x", "y", "z"]
    once = prepare(page, TextOptions(format="html"), "en", 400, "de")
    rebuilt = once.rebuild([Translation("Der Hund.", 0.0)])
    assert (rebuilt.text, rebuilt.report["complete"]) == (page, False)
    assert [one["why"] for one in rebuilt.report["returned"]] == ["an element would be empty"]


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.srt", "1\n00:01,000 --> 00:02,000\nA dog.\n2\n00:03,000 --> 00:04,000\nA man.\n", ["A dog.", "A man."]),
        ("a.srt", "1\n00:01,000 --> 00:02,000\nA dog,\n\nold.\n\n2\n00:03,000 --> 00:04,000\nA man.\n", None),
        ("a.srt", "1\n00:00:01 --> 00:00:02\nA & <i>dog</i>.\n", ["A & <i>dog</i>."]),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:03.000 align:start\na<00:02.000> <c.red>dog</c>\n", None),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:03.000\n<v Anna>a dog\n\nNOTE a man\n", ["<v Anna>a dog"]),
    ],
)
def test_subtitles_come_back_with_their_times(name: str, text: str, wanted: list[str] | None) -> None:
    document = read_document(name, text.encode())
    assert wanted is None or [passage.text for passage in document.passages] == wanted
    answers = [translate(passage.text, passage.options).text for passage in document.passages]
    answer = document.write(answers, "de").decode()
    assert answer != text
    assert answer.replace("~", "") == text


def test_a_broken_line_of_times_is_refused() -> None:
    with pytest.raises(DocumentError, match="line 2: '00:00:01,000 --> soon' is no line of times"):
        read_document("a.srt", b"1\n00:00:01,000 --> soon\nA dog.\n\n2\n00:03,000 --> 00:04,000\nA man.\n")


PLURALS = {
    "ja": ("nplurals=1; plural=0;", ["%d f~iles"]),
    "de": ("nplurals=2; plural=(n != 1);", ["o~ne f~ile", "%d f~iles"]),
    "fr": ("nplurals=2; plural=(n > 1);", ["%d f~iles", "%d f~iles"]),
    "ru": (
        "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
        ["%d f~iles"] * 3,
    ),
    "ar": (
        "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);",
        ["%d f~iles", "o~ne f~ile", *["%d f~iles"] * 4],
    ),
}


@pytest.mark.parametrize("language", PLURALS)
def test_plural_forms_are_those_of_the_header_and_msgfmt_reads_them(language: str, tmp_path: Path) -> None:
    rule, wanted = PLURALS[language]
    head = f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=ISO-8859-2\\n"\n"Plural-Forms: {rule}\\n"\n\n'
    forms = "".join(f'msgstr[{form}] ""\n' for form in range(len(wanted)))
    source = head + f'#, c-format\nmsgid "one file"\nmsgid_plural "%d files"\n{forms}'
    document = read_document("a.po", source.encode())
    answer = document.write([translate(passage.text, passage.options).text for passage in document.passages], language)
    assert b"charset=UTF-8" in answer
    assert list(polib.pofile(answer.decode())[0].msgstr_plural.values()) == wanted
    if shutil.which("msgfmt"):
        (tmp_path / "a.po").write_bytes(answer)
        subprocess.run(["msgfmt", "-c", "-o", str(tmp_path / "a.mo"), str(tmp_path / "a.po")], check=True)


def test_a_document_without_text_says_so() -> None:
    assert read_document("a.docx", make(".docx", [["42"]])).notes == ("no text to translate was found in it",)


def test_strict_and_oddly_named_parts_of_word_are_read() -> None:
    strict = W.replace("schemas.openxmlformats.org/wordprocessingml/2006", "purl.oclc.org/ooxml/wordprocessingml")
    body = "<w:p><w:r><w:t>A well</w:t><w:noBreakHyphen/><w:t>known dog.</w:t></w:r></w:p>"
    for space, name in ((W, "word/document2.xml"), (strict, "word/document.xml")):
        part = f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>'
        document = read_document("a.docx", packed({name: part}))
        assert [passage.text for passage in document.passages] == ["A well\u2011known dog."]
        with zipfile.ZipFile(io.BytesIO(document.write(["Ein wohl\u2011bekannter Hund."], "de"))) as archive:
            assert b"wohl</w:t><w:noBreakHyphen/><w:t>bekannter" in archive.read(name)


TEXTS = ("text", "html", "xml", "markdown", "icu", "xliff")
DOCUMENTS = (".docx", ".pptx", ".odt", ".po", ".srt", ".vtt")


@pytest.mark.parametrize("kind", TEXTS)
def test_a_passage_is_whole_or_said_not_to_be(kind: str) -> None:
    seen = check_texts(SAMPLE // 4, kind)
    assert seen[True] > 0.9 * (SAMPLE // 4)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_is_whole_or_said_not_to_be(kind: str) -> None:
    check_documents(20, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", [*TEXTS, *DOCUMENTS])
def test_every_passage_is_whole_or_said_not_to_be(kind: str) -> None:
    check_documents(COUNT, kind) if kind in DOCUMENTS else check_texts(COUNT, kind)


@pytest.mark.parametrize(
    ("kind", "text", "translation", "lost"),
    [
        ("text", "Hello {name}, 3 dogs", "Hallo {name}, 3 Hunde", []),
        ("text", "Hello {name}, 1,000 dogs", "Hallo, 1.000 Hunde", ["{name}"]),
        ("text", "The <b>dog</b>", "Der Hund", ["<b>"]),
        ("text", "Hello %s", "%s Hallo %s", ["%s"]),
        ("markdown", "# The dog\n\nThe {name} man\n", "Der Mann", ["{name}"]),
    ],
)
def test_a_known_translation_is_checked_too(kind: str, text: str, translation: str, lost: list[str]) -> None:
    known = text.split("\n\n")[-1].strip()
    units = {comparable(known): Match(known, translation, 100.0, "a.tmx")}
    rebuilt = translate(text, TextOptions(format=kind, known=KnownTranslations(units)))  # type: ignore[arg-type]
    assert translation in rebuilt.text
    assert (rebuilt.report["complete"], rebuilt.report.get("lost", [])) == (not lost, lost)
    assert sum(rebuilt.lost.values()) == len(lost)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("markdown", "Java**Script** sleeps.", "**J~avaScript** s~leeps."),
        ("html", "<p>An i<em>Phone</em> sleeps.</p>", "<p>A~n <em>i~Phone</em> s~leeps.</p>"),
        ("html", "<p>Java<span>Script</span> sleeps.</p>", "<p><span>J~avaScript</span> s~leeps.</p>"),
        ("html", "<p><q>Git</q>Hub sleeps.</p>", "<p><q>G~itHub</q> s~leeps.</p>"),
        ("html", "<li><a>Home</a>About</li>", "<li><a>H~ome</a>A~bout</li>"),
        ("html", "<h1>The dog<small>The man</small></h1>", "<h1>T~he d~og<small>T~he m~an</small></h1>"),
        (
            "html",
            "<p>A <ruby>dog<rp>(</rp><rt>woof</rt><rp>)</rp></ruby>.</p>",
            "<p>A~ <ruby>d~og<rp>(</rp><rt>w~oof</rt><rp>)</rp></ruby>.</p>",
        ),
        ("html", "The <b>speed=multi30k</b> dog", "T~he <b>s~peed=multi30k</b> d~og"),
        ("html", "<s>$10</s><b>$5</b> now", "<s>$10</s><b>$5</b> n~ow"),
        ("html", "The &lt;b&gt; tag, &amp;nbsp; too", "T~he &lt;b&gt; t~ag, &amp;nbsp; t~oo"),
        ("xml", "The &lt;b&gt;dog&lt;br/&gt;A <x/>man&lt;/b&gt;", "T~he &lt;b&gt;d~og&lt;br/&gt;A~ <x/>m~an&lt;/b&gt;"),
        ("html", "<ruby>dog<rt>woof</rt></ruby>", "<ruby>d~og<rt>w~oof</rt></ruby>"),
        ("text", "The dog\\nThe man\\Nsleeps 😀now", "T~he d~og\\nT~he m~an\\Ns~leeps 😀n~ow"),
        ("xml", "The dog<x/>The man", "T~he d~og<x/>T~he m~an"),
        (
            "xliff",
            "Java<x id='START_B'/>Script<x id='CLOSE_B'/> men",
            "<x id='START_B'/>J~avaScript<x id='CLOSE_B'/> m~en",
        ),
        ("xliff", "<bpt id='1'>&lt;</bpt>The <sc id='2'/>dog<ec startRef='2'/><ept id='1'>&gt;</ept> sleeps", None),
        ("html", "<p>A dog<sup>[citation needed]</sup>.", "<p>A~ d~og<sup>[citation n~eeded]</sup>."),
        (
            "markdown",
            "# Dog {#a .b}\n\nA man[^1] $x_1 + y$ sleeps.\n",
            "# D~og {#a .b}\n\nA~ m~an[^1] $x_1 + y$ s~leeps.\n",
        ),
        ("xml", "dog<s>2</s>; <b>H<s>2</s><b><c>Ctrl</c>+<c>C</c>? </b></b>", None),
        ("markdown", "Another\\'s dog\\... in snake\\_case.", "A~nother's d~og... i~n snake\\_case."),
        ("html", "<td><b>Total</b>5</td>", "<td><b>T~otal</b>5</td>"),
        (
            "markdown",
            "> [!NOTE]\n> The dog\n\n::: tip {.x}\nA man\n:::\n",
            "> [!NOTE]\n> T~he d~og\n\n::: tip {.x}\nA~ m~an\n:::\n",
        ),
        ("markdown", "2020\\. A dog", "2020\\. A~ d~og"),
        ("text", "The <?php x() ?> dog in <% y %>.", "T~he <?php x() ?> d~og i~n <% y %>."),
        ("text", "A {n, plural, one {<i><i><y/> </i> dog </i>, m<b>2</b> %s } other {x}}", None),
        ("markdown", "The [dog](<a b> 'x').", "T~he [d~og](<a b> 'x')."),
        ("markdown", "A [man][m].\n\n[m]: x\n", "A~ [m~an][m].\n\n[m]: x\n"),
        ("markdown", "The [man].\n\n[man]: x\n", "T~he [m~an][man].\n\n[man]: x\n"),
        ("markdown", "> The `a\n> b` dog.\n", "> T~he `a\n> b` d~og.\n"),
        (
            "html",
            "<p>A&nbsp;<!-- &nbsp; --><b id='a>b'>dog</b> &lt; man",
            "<p>A~ <!-- &nbsp; --><b id='a>b'>d~og</b> &lt; m~an",
        ),
        ("html", "<script>if (a<b) '<p>'</script><p>dog", "<script>if (a<b) '<p>'</script><p>d~og"),
        ("html", '<a href="<%= x("a") %>">dog</a>', '<a href="<%= x("a") %>">d~og</a>'),
        ("xml", "<ü x='1'>dog</ü> &#38; <![CDATA[5<6]]>", "<ü x='1'>d~og</ü> &amp; 5&lt;6"),
    ],
)
def test_markup_comes_back_as_it_was_written(kind: str, text: str, wanted: str | None) -> None:
    rebuilt = translate(text, XLIFF if kind == "xliff" else TextOptions(format=kind))  # type: ignore[arg-type]  # literals
    assert rebuilt.report["complete"] and characters(rebuilt.text) == characters(wanted or text)
    assert wanted is None or rebuilt.text == wanted


def test_xliff_1_1_is_read_and_a_slide_keeps_its_line_feeds() -> None:
    unit = "<file><body><trans-unit id='1'><source>The dog</source></trans-unit></body></file>"
    old = f'<xliff xmlns="urn:oasis:names:tc:xliff:document:1.1" version="1.1">{unit}</xliff>'
    assert [passage.text for passage in read_document("a.xlf", old.encode()).passages] == ["The dog"]
    (passage,) = read_document("a.pptx", make(".pptx", [["The dog\nThe man"]])).passages
    assert re.fullmatch(r"The dog<br [^>]*>The man", passage.text)
