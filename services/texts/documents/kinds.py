"""The kinds of documents by the endings of their names. A kind's file is imported when it is first needed."""

from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath

from dragoman.services.texts.documents.document import Document, DocumentError

HERE = "dragoman.services.texts.documents"
KINDS = {  # ending -> file, its function, the media type
    ".txt": ("texts", "read_plain", "text/plain"),
    ".md": ("texts", "read_markdown", "text/markdown"),
    ".html": ("texts", "read_html", "text/html"),
    ".htm": ("texts", "read_html", "text/html"),
    ".srt": ("subtitles", "read_srt", "application/x-subrip"),
    ".vtt": ("subtitles", "read_vtt", "text/vtt"),
    ".docx": ("office", "read_docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ".pptx": ("office", "read_pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ".odt": ("odt", "read_odt", "application/vnd.oasis.opendocument.text"),
    ".epub": ("epub", "read_epub", "application/epub+zip"),
    ".po": ("po", "read_po", "text/x-gettext-translation"),
    ".xliff": ("xliff", "read_xliff", "application/xliff+xml"),
    ".xlf": ("xliff", "read_xliff", "application/xliff+xml"),
    ".json": ("texts", "read_json", "application/json"),
}
PACKED = (".docx", ".pptx", ".odt", ".epub")  # no lines of text


def ending_of(name: str) -> str:
    """Returns the ending that names the kind of a document. Raises DocumentError: there is no such kind."""
    ending = PurePath(name).suffix.lower()
    if ending not in KINDS:
        raise DocumentError(f"{ending or 'a name without an ending'} is not supported; choose from {' '.join(KINDS)}")
    return ending


def read_document(name: str, content: bytes) -> Document:
    """Returns a document by its name's ending and its content.

    Raises DocumentError: the kind is not supported, or the file is not of that kind.
    """
    file, function, _ = KINDS[ending_of(name)]
    read: Callable[[bytes], Document] = getattr(import_module(f"{HERE}.{file}"), function)
    return read(content)
