"""Every kind of document: the same after an identity translation, and all but its texts after a real one."""

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import numpy as np
import polib
import pptx
import pytest
from lxml import etree

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.documents.document import Document, DocumentError
from dragoman.services.texts.documents.kinds import KINDS, ending_of, read_document
from dragoman.services.texts.prepare import pending, prepare
from dragoman.services.texts.stand_ins import NAMES, StandIns

STAND_INS = StandIns(tuple((name, (name,)) for name in NAMES), ())
Translate = Callable[[str], str]


def answer(line: str, translate: Translate) -> Translation:
    """A translation word by word, with its alignment."""
    text = translate(line)
    words = line.split()
    weights = np.eye(len(words) + 1, dtype=np.float32)
    maps = (AttentionMap((*words, END), (*text.split(), END), weights, "l0h0", "output"),)
    return Translation(text, 0.0, [Alternative(text, 0.0)], attention=maps)


def translated(document: Document, translate: Translate) -> bytes:
    texts = []
    for passage in document.passages:
        prepared = prepare(passage.text, passage.options, "en", 400, "de")
        prepared.stand_ins = STAND_INS
        while not prepared.finished:
            for asked in pending([prepared]):
                asked.take([answer(line, translate) for line in asked.lines])
        rebuilt = prepared.rebuild()
        assert rebuilt.report["complete"], rebuilt
        texts.append(rebuilt.text)
    return document.write(texts, "de")


def shout(line: str) -> str:
    return line.upper()


def same(line: str) -> str:
    return line


def packed(members: dict[str, str], stored: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text, zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def make_docx() -> bytes:
    """Bold and italic words, a link, a table, a header, a list, a tab, a break, a picture's place."""
    document = docx.Document()
    document.add_heading("The old house", 1)
    paragraph = document.add_paragraph("The dog sees ")
    paragraph.add_run("the man").bold = True
    paragraph.add_run(" in the ")
    paragraph.add_run("garden").italic = True
    paragraph.add_run(".")
    broken = document.add_paragraph("Name")
    broken.add_run().add_tab()
    broken.add_run("City")
    broken.add_run().add_break()
    broken.add_run("A second line.")
    link = document.add_paragraph("Read ")
    address = document.part.relate_to("https://example.com/", docx.opc.constants.RELATIONSHIP_TYPE.HYPERLINK, True)
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    space += 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    link._p.append(
        etree.fromstring(
            f'<w:hyperlink {space} r:id="{address}"><w:r><w:rPr><w:u w:val="single"/></w:rPr>'
            "<w:t>this page</w:t></w:r></w:hyperlink>",
            docx.oxml.parser.oxml_parser,
        )
    )
    link.add_run(" today.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "A cell", "42"
    document.sections[0].header.paragraphs[0].text = "The header"
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def make_pptx() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "The old house"
    frame = slide.placeholders[1].text_frame
    run = frame.paragraphs[0].add_run()
    run.text = "The dog sees "
    bold = frame.paragraphs[0].add_run()
    bold.text, bold.font.bold = "the man", True
    link = frame.add_paragraph().add_run()
    link.text, link.hyperlink.address = "this page", "https://example.com/"
    slide.notes_slide.notes_text_frame.text = "The notes"
    out = io.BytesIO()
    presentation.save(out)
    return out.getvalue()


ODT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"
 office:version="1.3"><office:body><office:text>
<text:h text:style-name="H" text:outline-level="1">The old house</text:h>
<text:p text:style-name="P1">The dog sees <text:span text:style-name="bold">the man</text:span> on
 <text:a xlink:href="https://example.com/" xlink:type="simple">this page</text:a>.</text:p>
<text:p>A note<text:note text:id="n1" text:note-class="footnote"><text:note-citation>1</text:note-citation
><text:note-body><text:p>It says more.</text:p></text:note-body></text:note> stands here.</text:p>
<text:p>Name<text:tab/>City<text:line-break/>A second line.</text:p>
<text:p>42</text:p><!-- stays --></office:text></office:body></office:document-content>"""


def make_odt() -> bytes:
    members = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": ODT, "Pictures/a.png": "\x89PNG"}
    return packed(members, stored="mimetype")


PAGE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><title>The house</title><meta charset="utf-8"/></head>
<body><h1 id="a">The old house</h1><p>The dog sees <b>the man</b> on <a href="b.xhtml">this page</a>.<br/>Good.</p>
</body></html>
"""


def make_epub() -> bytes:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles><rootfile '
        'full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/'
        '1.1/"><dc:title>A book of dogs</dc:title></metadata><manifest><item id="p" href="page%201.xhtml" '
        'media-type="application/xhtml+xml"/><item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        '</manifest><spine toc="n"><itemref idref="p"/></spine></package>'
    )
    ncx = (
        '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">'
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>A book</text></docTitle></ncx>'
    )
    members = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OPS/book.opf": package}
    members |= {"OPS/page 1.xhtml": PAGE, "OPS/toc.ncx": ncx, "OPS/style.css": "p { color: red }"}
    return packed(members, stored="mimetype")


PO = """# A comment.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: \\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#. Said by the shop.
#: shop.c:10
#, c-format
msgid "The dog costs %s."
msgstr ""

msgid "Done already."
msgstr "Schon fertig."

#, fuzzy
msgid "Nearly done."
msgstr "Fast fertig."

msgctxt "menu"
msgid "one dog\\n"
msgid_plural "many dogs\\n"
msgstr[0] ""
msgstr[1] ""
"""
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
  <file original="a.txt" source-language="en" datatype="plaintext"><body>
    <trans-unit id="1"><source>The dog sees <g id="1">the man</g> here.</source></trans-unit>
    <trans-unit id="2"><source>Press <ph id="2">&lt;br/&gt;</ph> now &amp; here.</source>
      <target state="new"/></trans-unit>
    <trans-unit id="3"><source>Done.</source><target state="translated">Fertig.</target></trans-unit>
    <trans-unit id="4" translate="no"><source>Stays.</source></trans-unit>
  </body></file>
</xliff>
"""
XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="1"><segment><source>The <pc id="1">old</pc> dog</source></segment></unit></file></xliff>
"""
JSON = '{\r\n\t"title": "The dog",  "n": [1.50, "a \\"man\\"", "\\u00e9t\\u00e9 is here"],'
JSON += ' "key": {"42": "42", "e": "{name} sees"}}\n'
SRT = "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>The dog sees</i>\r\nthe man.\r\n\r\n"
SRT += "2\r\n00:00:03,000 --> 00:00:04,000\r\nGood.\r\n"
VTT = """WEBVTT - a title

STYLE
::cue { color: red }

NOTE nothing here

first
00:01.000 --> 00:02.500 align:start position:10%
<v Anna>The dog sees the man.</v>

00:00:03.000 --> 00:00:04.000
Good dogs.
"""
TXT = "The dog sees the man.\n\n  - A list.\r\n\r\n\r\nThe end"
MARKDOWN = "# The house\n\nThe dog sees **the man** and [this page](https://example.com/a_b).\n\n```\ncode stays\n```\n"
SAMPLES: dict[str, Callable[[], bytes]] = {
    "a.txt": TXT.encode,
    "a.md": MARKDOWN.encode,
    "a.html": PAGE.encode,
    "a.srt": SRT.encode,
    "a.vtt": VTT.encode,
    "a.docx": make_docx,
    "a.pptx": make_pptx,
    "a.odt": make_odt,
    "a.epub": make_epub,
    "a.po": PO.encode,
    "a.xliff": XLIFF.encode,
    "b.xlf": XLIFF2.encode,
    "a.json": JSON.encode,
}


def members(content: bytes) -> dict[str, bytes]:
    """The members of a zip file in order; XML as its canonical form."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {one.filename: canonical(one.filename, archive.read(one)) for one in archive.infolist()}


def canonical(name: str, content: bytes) -> bytes:
    return (
        etree.canonicalize(content.decode()).encode() if name.endswith((".xml", ".opf", ".ncx", ".rels")) else content
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_an_identity_translation_changes_nothing_but_empty_targets(name: str) -> None:
    content = SAMPLES[name]()
    document = read_document(name, content)
    assert document.passages
    found = document.write([passage.text for passage in document.passages], "")
    if content.startswith(b"PK"):
        assert list(members(found).items()) == list(members(content).items())
    elif name.endswith(".po"):
        before, after = polib.pofile(content.decode()), polib.pofile(found.decode())
        assert [(one.msgid, one.msgctxt, one.flags, one.comment) for one in before] == [
            (one.msgid, one.msgctxt, one.flags, one.comment) for one in after
        ]
        assert after[0].msgstr == "The dog costs %s." and after[3].msgstr_plural == {0: "one dog\n", 1: "many dogs\n"}
    elif name.endswith((".xliff", ".xlf")):
        targets = re.compile(r"<target[^>]*/>|<target.*?</target>", re.DOTALL)
        plain = [targets.sub("", etree.canonicalize(one.decode())) for one in (content, found)]
        assert plain[0] == plain[1]
    else:
        assert found == content


def upper(content: bytes) -> str:
    """An XML file's elements and attributes with all text in capitals: what a shouting translator makes of it."""
    root = etree.fromstring(content)
    for one in root.iter():
        if isinstance(one.tag, str):
            one.text = one.text and one.text.upper()
        one.tail = one.tail and one.tail.upper()
    return etree.canonicalize(etree.tostring(root).decode())


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.odt"])
def test_only_the_texts_of_an_office_document_change(name: str) -> None:
    content = SAMPLES[name]()
    found = translated(read_document(name, content), shout)
    assert list(members(found)) == list(members(content))
    changed = []
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(io.BytesIO(found)) as new:
        for member in old.namelist():
            if old.read(member) == new.read(member) or canonical(member, old.read(member)) == canonical(
                member, new.read(member)
            ):
                continue
            changed.append(member)
            assert upper(new.read(member)) == upper(old.read(member)), member
    expected = {
        "a.docx": {"word/document.xml", "word/header1.xml"},
        "a.pptx": {"ppt/slides/slide1.xml", "ppt/notesSlides/notesSlide1.xml"},
        "a.odt": {"content.xml"},
    }
    assert set(changed) == expected[name]


def test_bold_and_links_of_word_stay() -> None:
    document = docx.Document(io.BytesIO(translated(read_document("a.docx", make_docx()), shout)))
    paragraphs = document.paragraphs
    assert paragraphs[0].text == "THE OLD HOUSE" and paragraphs[0].style.name == "Heading 1"
    assert [(run.text, run.bold, run.italic) for run in paragraphs[1].runs] == [
        ("THE DOG SEES ", None, None),
        ("THE MAN", True, None),
        (" IN THE ", None, None),
        ("GARDEN", None, True),
        (".", None, None),
    ]
    assert paragraphs[2].text == "NAME\tCITY\nA SECOND LINE."
    assert [(link.text, link.address) for link in paragraphs[3].hyperlinks] == [("THIS PAGE", "https://example.com/")]
    assert [cell.text for cell in document.tables[0].rows[0].cells] == ["A CELL", "42"]
    assert document.sections[0].header.paragraphs[0].text == "THE HEADER"


def test_bold_moves_with_its_words() -> None:
    """A translation in another order: the formatting is where the alignment says."""
    document = read_document("a.docx", make_docx())
    texts = [passage.text for passage in document.passages]
    assert texts[1] == "The dog sees <g-1>the man</g-1> in the <g-2>garden</g-2>."
    texts[1] = "<g-2>Garten</g-2>: <g-1>den Mann</g-1> sieht der Hund."
    paragraph = docx.Document(io.BytesIO(document.write(texts, "de"))).paragraphs[1]
    assert [(run.text, run.bold, run.italic) for run in paragraph.runs] == [
        ("Garten", None, True),
        (": ", None, None),
        ("den Mann", True, None),
        (" sieht der Hund.", None, None),
    ]


def test_bold_and_links_of_slides_stay() -> None:
    slide = pptx.Presentation(io.BytesIO(translated(read_document("a.pptx", make_pptx()), shout))).slides[0]
    assert slide.shapes.title.text == "THE OLD HOUSE"
    runs = [run for paragraph in slide.placeholders[1].text_frame.paragraphs for run in paragraph.runs]
    assert [(run.text, run.font.bold, run.hyperlink.address) for run in runs] == [
        ("THE DOG SEES ", None, None),
        ("THE MAN", True, None),
        ("THIS PAGE", None, "https://example.com/"),
    ]
    assert slide.notes_slide.notes_text_frame.text == "THE NOTES"


def run(text: str, inside: str = "") -> str:
    return f'<w:r w:rsidR="{len(text)}">{inside}<w:t xml:space="preserve">{text}</w:t></w:r>'


def word(paragraphs: str) -> bytes:
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    return packed({"word/document.xml": f"<w:document {space}><w:body>{paragraphs}</w:body></w:document>"})


MARK = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
LINK = "<w:r><w:instrText>{}</w:instrText></w:r>"


def test_runs_that_look_the_same_are_one_text() -> None:
    content = word(f"<w:p>{run('The d')}<w:proofErr w:type='spellStart'/>{run('og sl')}{run('eeps.')}</w:p>")
    assert [one.text for one in read_document("a.docx", content).passages] == ["The dog sleeps."]


def test_fields_stay_whole() -> None:
    page = MARK.format("begin") + LINK.format(" PAGE ") + MARK.format("separate") + run("7") + MARK.format("end")
    link = MARK.format("begin") + LINK.format(' HYPERLINK "a" ') + MARK.format("separate") + run("here")
    content = word(f"<w:p>{run('See page ')}{page}{run(' or ')}{link}{MARK.format('end')}{run(' now.')}</w:p>")
    document = read_document("a.docx", content)
    assert [one.text for one in document.passages] == ["See page <x-1/> or <g-2>here</g-2> now."]
    new = zipfile.ZipFile(io.BytesIO(document.write(["<g-2>Hier</g-2> oder Seite <x-1/> jetzt."], "de")))
    text = new.read("word/document.xml").decode()
    marks = re.findall(r'fldCharType="(\w+)"|<w:t[^>]*>([^<]*)|<w:instrText>([^<]*)<', text)
    assert ["".join(mark) for mark in marks] == [
        *("begin", ' HYPERLINK "a" ', "separate", "Hier", "end", " oder Seite "),
        *("begin", " PAGE ", "separate", "7", "end", " jetzt."),
    ]


def test_a_field_over_paragraphs_stays_as_it_is() -> None:
    content = word(f"<w:p>{MARK.format('begin')}{run('Contents')}</w:p><w:p>{run('One')}{MARK.format('end')}</w:p>")
    document = read_document("a.docx", content)
    assert document.passages == []
    assert members(document.write([], "de")) == members(content)


def test_text_boxes_in_a_paragraph_are_translated_and_stay_in_it() -> None:
    box = f"<w:r><w:pict><w:txbxContent><w:p>{run('In the box')}</w:p></w:txbxContent></w:pict></w:r>"
    found = translated(read_document("a.docx", word(f"<w:p>{run('Before ')}{box}{run('after.')}</w:p>")), shout)
    text = members(found)["word/document.xml"].decode()
    assert re.findall(r"<w:t [^>]*>([^<]*)|<w:t>([^<]*)|<(w:pict)>", text) and "IN THE BOX" in text
    assert text.count("<w:pict>") == 1 and "BEFORE" in text and "AFTER." in text


def test_a_lost_picture_is_put_at_the_end_and_wrong_tags_change_nothing() -> None:
    content = word(f"<w:p>{run('See ')}<w:r><w:drawing/></w:r>{run('here')}</w:p>")
    document = read_document("a.docx", content)
    assert "<w:drawing" in members(document.write(["Hier"], "de"))["word/document.xml"].decode()
    document = read_document("a.docx", content)
    assert members(document.write(["<x-1/><x-1/>"], "de")) == members(content)


def test_odt_spans_links_notes_and_borders_stay() -> None:
    found = members(translated(read_document("a.odt", make_odt()), shout))["content.xml"].decode()
    assert '<text:span text:style-name="bold">THE MAN</text:span>' in found
    assert 'xlink:href="https://example.com/" xlink:type="simple">THIS PAGE</text:a>' in found
    assert "NAME<text:tab></text:tab>CITY<text:line-break></text:line-break>A SECOND LINE." in found
    assert "<text:p>IT SAYS MORE.</text:p></text:note-body></text:note>" in found


def test_epub_pages_and_titles() -> None:
    content = translated(read_document("a.epub", make_epub()), shout)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        page = archive.read("OPS/page 1.xhtml").decode()
        assert "A BOOK OF DOGS" in archive.read("OPS/book.opf").decode()
        assert "<text>A BOOK</text>" in archive.read("OPS/toc.ncx").decode()
    assert '<p>THE DOG SEES <b>THE MAN</b> ON <a href="b.xhtml">THIS PAGE</a>.<br/>GOOD.</p>' in page
    etree.fromstring(page.encode())


def test_po() -> None:
    catalogue = polib.pofile(translated(read_document("a.po", PO.encode()), shout).decode())
    first, done, fuzzy, plural = catalogue
    assert first.msgstr == "THE DOG COSTS %s." and first.comment == "Said by the shop."
    assert (done.msgstr, fuzzy.msgstr, fuzzy.fuzzy) == ("Schon fertig.", "Fast fertig.", True)
    assert plural.msgstr_plural == {0: "ONE DOG\n", 1: "MANY DOGS\n"} and plural.msgctxt == "menu"
    assert catalogue.metadata["Language"] == "de"


def test_xliff() -> None:
    found = translated(read_document("a.xliff", XLIFF.encode()), shout).decode()
    assert '<target>THE DOG SEES <g id="1">THE MAN</g> HERE.</target>' in found
    assert '<target state="translated">PRESS <ph id="2">&lt;br/&gt;</ph> NOW &amp; HERE.</target>' in found
    assert ">Fertig.<" in found and "<source>Stays.</source></trans-unit>" in found
    assert 'target-language="de"' in found
    found = translated(read_document("b.xlf", XLIFF2.encode()), shout).decode()
    assert '<target>THE <pc id="1">OLD</pc> DOG</target>' in found and 'trgLang="de"' in found


def test_json() -> None:
    found = translated(read_document("a.json", JSON.encode()), shout)
    assert json.loads(found) == {
        "title": "THE DOG",
        "n": [1.5, 'A "MAN"', "ÉTÉ IS HERE"],
        "key": {"42": "42", "e": "{name} SEES"},
    }
    assert found.startswith(b'{\r\n\t"title": "THE DOG",  "n": [1.50,') and b"\\u00c9T" in found


def test_subtitles() -> None:
    found = translated(read_document("a.srt", SRT.encode()), shout).decode()
    assert found == SRT.replace("The dog sees", "THE DOG SEES").replace("the man", "THE MAN").replace("Good", "GOOD")
    found = translated(read_document("a.vtt", VTT.encode()), shout).decode()
    assert found == VTT.replace("The dog sees the man.", "THE DOG SEES THE MAN.").replace("Good dogs", "GOOD DOGS")


def test_plain_text_and_markdown() -> None:
    assert translated(read_document("a.txt", TXT.encode()), shout).decode() == TXT.upper()
    found = translated(read_document("a.md", MARKDOWN.encode()), shout).decode()
    assert "THE DOG SEES **THE MAN** AND [THIS PAGE](https://example.com/a_b)." in found and "code stays" in found


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """A member's bytes are wrong, the table of members right."""
    place = content.index(b"word/document.xml") + 60
    return content[:place] + bytes(200) + content[place + 200 :]


def bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", bytes(21 * 2**20))
    return out.getvalue()


ENTITIES = '<!DOCTYPE a [<!ENTITY b "dog"><!ENTITY x SYSTEM "file:///etc/passwd">]>'
WRONG = {
    "no zip": ("a.docx", b"The dog sees the man."),
    "empty": ("a.odt", b""),
    "cut": ("a.pptx", cut(make_pptx())),
    "flipped": ("a.docx", flipped(make_docx())),
    "another kind": ("a.docx", make_pptx()),
    "a book as text": ("a.odt", make_epub()),
    "bomb": ("a.docx", bomb()),
    "members": ("a.docx", packed({f"{number}": "" for number in range(5001)})),
    "entities": ("a.docx", packed({"word/document.xml": f"{ENTITIES}<a>&b;&x;</a>"})),
    "xliff entities": ("a.xliff", XLIFF.replace("?>", f"?>{ENTITIES}", 1).encode()),
    "deep": ("a.docx", packed({"word/document.xml": "<a>" * 5000})),
    "no package": ("a.epub", packed({"META-INF/container.xml": "<a/>"})),
    "no xliff": ("a.xliff", b"<html/>"),
    "no json": ("a.json", b"{'a': 1}"),
    "deep json": ("a.json", b"[" * 100_000),
    "no times": ("a.srt", b"The dog sees the man."),
    "no vtt": ("a.vtt", SRT.encode()),
    "no po": ("a.po", b"\x00\x01 nothing"),
    "latin-1": ("a.txt", "Käse".encode("latin-1")),
    "ending": ("a.exe", b"MZ"),
    "no ending": ("a", b"The dog"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_read_is_refused(wrong: str) -> None:
    with pytest.raises(DocumentError) as problem:
        document = read_document(*WRONG[wrong])
        document.write([passage.text for passage in document.passages], "de")
    assert isinstance(problem.value, UserError) and str(problem.value)


def nested(depth: int) -> str:
    """Returns XML of so many elements inside of each other."""
    return "<a>" * depth + "</a>" * depth


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", lambda text: packed({"word/document.xml": text})),
        ("a.pptx", lambda text: packed({"ppt/presentation.xml": "<a/>", "ppt/slides/slide1.xml": text})),
        ("a.odt", lambda text: packed({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": text})),
        ("a.epub", lambda text: packed({"META-INF/container.xml": text})),
        ("a.xliff", lambda text: f"<xliff>{text[3:-4]}</xliff>".encode()),
    ],
)
def test_elements_are_nested_as_deep_as_in_a_text(name: str, content: Callable[[str], bytes]) -> None:
    with pytest.raises(DocumentError, match="elements are nested deeper than 100"):
        read_document(name, content(nested(101)))
    try:
        read_document(name, content(nested(100)))
    except DocumentError as problem:  # it is no book
        assert "nested" not in str(problem)


def test_members_are_not_unpacked_before_their_sizes_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.services.texts.documents.archive.MOST_BYTES", 100)
    with pytest.raises(DocumentError, match="bytes when unpacked; at most 100 are allowed"):
        read_document("a.docx", make_docx())


def test_every_kind_has_a_sample(tmp_path: Path) -> None:
    assert {ending_of(name) for name in SAMPLES} | {".htm"} == set(KINDS)
