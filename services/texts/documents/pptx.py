"""PowerPoint: paragraphs of the slides, their notes, comments, diagrams and titles of charts."""

import re

from dragoman.services.texts.documents.document import Document
from dragoman.services.texts.documents.office import Names, read_office

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
MEMBER = re.compile(r"ppt/(slides/slide\d+|notesSlides/notesSlide\d+|diagrams/(data|drawing)\d+|charts/chart\d+)\.xml")
NAMES = Names(
    paragraph=f"{A}p",
    run=f"{A}r",
    properties=f"{A}rPr",
    text=f"{A}t",
    first=frozenset((f"{A}pPr",)),
    last=frozenset((f"{A}endParaRPr",)),
    borders=frozenset((f"{A}br",)),
    unseen=frozenset(("lang", "altLang", "dirty", "err", "noProof", "smtClean", "smtId")),
)


def read_pptx(content: bytes) -> Document:
    """Returns a presentation."""
    return read_office(content, NAMES, "ppt/presentation.xml", lambda name: MEMBER.fullmatch(name) is not None)
