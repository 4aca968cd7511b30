"""Word: paragraphs of the text, its headers, footers, notes, comments and text boxes."""

import re

from dragoman.services.texts.documents.document import Document
from dragoman.services.texts.documents.office import Names, read_office

MEMBER = re.compile(r"word/(document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")


def _names(space: str) -> Names:
    def named(words: str) -> frozenset[str]:
        return frozenset(space + word for word in words.split())

    return Names(
        paragraph=f"{space}p",
        run=f"{space}r",
        properties=f"{space}rPr",
        text=f"{space}t",
        first=named("pPr sdtPr sdtEndPr smartTagPr customXmlPr"),
        around=named("hyperlink ins moveTo smartTag sdt sdtContent customXml dir bdo"),
        borders=named("tab br cr ptab"),
        dropped=named("proofErr lastRenderedPageBreak softHyphen"),
        unseen=named("lang noProof"),
        hyphen=f"{space}noBreakHyphen",
        field_mark=f"{space}fldChar",
        field_kind=f"{space}fldCharType",
        preserve=True,
    )


NAMES = _names("{http://schemas.openxmlformats.org/wordprocessingml/2006/main}")
STRICT = _names("{http://purl.oclc.org/ooxml/wordprocessingml/main}")


def read_docx(content: bytes) -> Document:
    """Returns a document of Word's."""
    return read_office(content, NAMES, STRICT, "word/document", MEMBER)
