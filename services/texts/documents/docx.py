"""Word: paragraphs of the text, its headers, footers, notes, comments and text boxes."""

import re

from dragoman.services.texts.documents.document import Document
from dragoman.services.texts.documents.office import Names, read_office

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MEMBER = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")


def _names(words: str) -> frozenset[str]:
    return frozenset(W + word for word in words.split())


NAMES = Names(
    paragraph=f"{W}p",
    run=f"{W}r",
    properties=f"{W}rPr",
    text=f"{W}t",
    first=_names("pPr sdtPr sdtEndPr smartTagPr customXmlPr"),
    around=_names("hyperlink ins moveTo smartTag sdt sdtContent customXml dir bdo"),
    borders=_names("tab br cr ptab"),
    dropped=_names("proofErr lastRenderedPageBreak softHyphen"),
    unseen=_names("lang noProof"),
    field_mark=f"{W}fldChar",
    field_kind=f"{W}fldCharType",
    preserve=True,
)


def read_docx(content: bytes) -> Document:
    """Returns a document of Word's."""
    return read_office(content, NAMES, "word/document.xml", lambda name: MEMBER.fullmatch(name) is not None)
