"""PowerPoint: paragraphs of the slides, their notes, comments, diagrams and titles of charts."""

import re

from dragoman.services.texts.documents.document import Document
from dragoman.services.texts.documents.office import Names, read_office

MEMBER = re.compile(r"ppt/(slides/slide\d+|notesSlides/notesSlide\d+|diagrams/(data|drawing)\d+|charts/chart\d+)\.xml")


def _names(space: str) -> Names:
    return Names(
        paragraph=f"{space}p",
        run=f"{space}r",
        properties=f"{space}rPr",
        text=f"{space}t",
        first=frozenset((f"{space}pPr",)),
        last=frozenset((f"{space}endParaRPr",)),
        borders=frozenset((f"{space}br",)),
        unseen=frozenset(("lang", "altLang", "dirty", "err", "noProof", "smtClean", "smtId")),
    )


NAMES = _names("{http://schemas.openxmlformats.org/drawingml/2006/main}")
STRICT = _names("{http://purl.oclc.org/ooxml/drawingml/main}")


def read_pptx(content: bytes) -> Document:
    """Returns a presentation."""
    return read_office(content, NAMES, STRICT, "ppt/presentation", MEMBER)
