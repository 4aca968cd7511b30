"""EPUB books: the pages, and the titles in the table of contents."""

import posixpath
from collections.abc import Sequence
from functools import partial
from urllib.parse import unquote

from dragoman.services.texts.documents.archive import Archive
from dragoman.services.texts.documents.document import Document, DocumentError, Passage, read_text
from dragoman.services.texts.documents.inline import HTML
from dragoman.services.texts.documents.xml import Node, clean, read_xml, write_xml
from dragoman.services.texts.protected import has_letter

CONTAINER = "META-INF/container.xml"
ROOTFILE = "{urn:oasis:names:tc:opendocument:xmlns:container}rootfile"
ITEM = "{http://www.idpf.org/2007/opf}item"
TITLES = ("{http://purl.org/dc/elements/1.1/}title", "{http://purl.org/dc/elements/1.1/}description")
NCX_TEXT = "{http://www.daisy.org/z3986/2005/ncx/}text"
PAGES, NCX = ("application/xhtml+xml", "text/html", "text/x-oeb1-document"), "application/x-dtbncx+xml"


def read_epub(content: bytes) -> Document:
    """Returns a book."""
    archive = Archive(content)
    if "META-INF/encryption.xml" in archive.names and b"EncryptedData" in archive.read("META-INF/encryption.xml"):
        raise DocumentError("a protected book cannot be translated")
    root_file = read_xml(archive.read(CONTAINER), CONTAINER).find(f".//{ROOTFILE}")
    package = "" if root_file is None else str(root_file.get("full-path", ""))
    trees: dict[str, Node] = {package: read_xml(archive.read(package), package)}
    titles = list(trees[package].iter(*TITLES))
    pages: list[tuple[str, str]] = []  # a page's name and its byte order mark
    passages: list[Passage] = []
    notes: list[str] = []
    for item in trees[package].iter(ITEM):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href", ""))))
        kind = item.get("media-type")
        if kind in (*PAGES, NCX) and name not in archive.names:
            notes.append(f"{name} is in the book's manifest and not in the book")
        elif kind in PAGES and name not in (page for page, _ in pages):
            mark, text = read_text(archive.read(name))
            pages.append((name, mark))
            passages.append(Passage(text, HTML))
        elif kind == NCX and name not in trees:
            trees[name] = read_xml(archive.read(name), name)
            titles += trees[name].iter(NCX_TEXT)
    titles = [title for title in titles if has_letter(title.text or "")]
    passages += [Passage(title.text) for title in titles]
    return Document(passages, partial(_write, archive, trees, pages, titles), notes)


def _write(
    archive: Archive,
    trees: dict[str, Node],
    pages: Sequence[tuple[str, str]],
    titles: Sequence[Node],
    texts: Sequence[str],
    _language: str,
) -> bytes:
    for title, text in zip(titles, texts[len(pages) :], strict=True):
        title.text = clean(text)
    changed = {name: (mark + clean(text)).encode() for (name, mark), text in zip(pages, texts, strict=False)}
    return archive.write(changed | {name: write_xml(tree) for name, tree in trees.items()})
