"""Every kind of document: the same after an identity translation, and all but its texts after a real one."""

import io
import json
import re
import zipfile
from pathlib import Path

import docx
import polib
import pptx
import pytest
from lxml import etree

from dragoman.services.texts.documents.kinds import KINDS, ending_of, read_document
from tests.services.texts.document_samples import (
    JSON,
    MARKDOWN,
    PO,
    SAMPLES,
    SRT,
    TXT,
    VTT,
    XLIFF,
    XLIFF2,
    canonical,
    make_docx,
    make_epub,
    make_odt,
    make_pptx,
    members,
    shout,
    translated,
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


def test_every_kind_has_a_sample(tmp_path: Path) -> None:
    assert {ending_of(name) for name in SAMPLES} | {".htm"} == set(KINDS)
