"""A document of every kind, and a translator that shouts."""

import io
import zipfile
from collections.abc import Callable

import docx
import numpy as np
import pptx
from lxml import etree

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.documents.document import Document
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
