"""Word's runs, fields, text boxes and pictures: what looks the same is one text, and nothing is lost."""

import io
import re
import zipfile

from dragoman.services.texts.documents.kinds import read_document
from tests.services.texts.document_samples import (
    members,
    packed,
    shout,
    translated,
)


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
