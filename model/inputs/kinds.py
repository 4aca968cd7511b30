"""Recognises a file's content by its first bytes once decompressed: text, a container of texts, or an unread format."""

import zipfile
from pathlib import Path
from typing import Literal

from model.errors import UserError
from model.inputs.compression import compression_of, plain_blocks

Kind = Literal["text", "utf-16", "utf-32", "zip", "tmx", "xliff", "parquet", "arrow"]
PAIRS = ("tmx", "xliff")  # hold languages side by side, each named
TABLES = ("parquet", "arrow")  # hold rows with named columns

HEAD = 4096  # bytes to look at
_BOMS: dict[bytes, Kind] = {  # UTF-32 first: its mark begins like UTF-16's
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
_BINARY: dict[bytes, Kind] = {
    b"PAR1": "parquet",
    b"ARROW1\0\0": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
}
# Common formats that we do not read: their first bytes -> the name, and what to do.
_FOREIGN = {
    b"%PDF-": ("a PDF document", "save its text as plain text"),
    b"\xd0\xcf\x11\xe0": ("an old Office document (.doc, .xls)", "save it as plain text or TSV"),
    b"SQLite format 3\0": ("an SQLite database", "export the texts as TSV or JSON Lines"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "unpack it and name the files in it"),
    b"Rar!\x1a\x07": ("a RAR archive", "unpack it and name the files in it"),
    b"FEA1": ("a Feather file of version 1", "write it again as Parquet or Arrow"),
    b"Obj\x01": ("an Avro file", "write it again as Parquet or JSON Lines"),
    b"\x89PNG": ("a picture", "name a file of text"),
    b"\xff\xd8\xff": ("a picture", "name a file of text"),
    b"{\\rtf": ("an RTF document", "save it as plain text"),
}
_OFFICE = {
    "[Content_Types].xml": ("an Office document (.docx, .xlsx)", "save it as plain text or TSV"),
    "mimetype": ("an OpenDocument file or e-book (.odt, .ods, .epub)", "save it as plain text or TSV"),
}
_WIDE_FEEDS = {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}
MOST = 0.8  # of the 0x0A bytes belong to line feeds of UTF-16, if there are any
_TAR = 257  # offset of a tar's magic


def kind_of(path: Path) -> Kind:
    """Returns the kind of content that the file holds.

    Raises:
        UserError: the format is not read here (the message names it and what to do), or the compression is broken.
    """
    head = head_of(path)
    for start, (name, advice) in _FOREIGN.items():
        if head.startswith(start):
            raise UserError(f"{path}: is {name}; {advice}")
    if head[_TAR : _TAR + 5] == b"ustar":
        raise UserError(f"{path}: is a tar archive; unpack it and name the files in it, or take corpus=webdataset")
    for start, kind in _BINARY.items():
        if head.startswith(start):
            return _check_archive(path) if kind == "zip" else kind
    for start, kind in _BOMS.items():
        if head.startswith(start):
            return _markup_of(head.decode(kind, "ignore").encode()) or kind
    for encoding, feed in _WIDE_FEEDS.items():
        if head.count(feed) > MOST * head.count(b"\n"):
            raise UserError(
                f"{path}: looks like {encoding.upper()} without its mark; corpus.encoding={encoding} reads a corpus, "
                f"iconv -f {encoding} -t utf-8 makes UTF-8 of it"
            )
    return _markup_of(head) or "text"


def head_of(path: Path) -> bytes:
    """Return the first bytes of the file's content, unpacked."""
    if compression_of(path) == "plain":
        with path.open("rb") as file:
            return file.read(HEAD)
    return next(plain_blocks(path), b"")[:HEAD]


def _markup_of(head: bytes) -> Kind | None:
    """Returns the kind of an XML file; None if it is no XML, or a kind that is not known."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith(b"<"):
        return None
    if b"<tmx" in text:
        return "tmx"
    return "xliff" if b"<xliff" in text else None


def _check_archive(path: Path) -> Kind:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except zipfile.BadZipFile as problem:
        raise UserError(f"{path}: the zip file is damaged or truncated ({problem})") from problem
    for name, (what, advice) in _OFFICE.items():
        if name in names:
            raise UserError(f"{path}: is {what}; {advice}")
    return "zip"
