"""Recognises a file's content by its first bytes once decompressed: text, a container of texts, or an unread format."""

import re
import zipfile
from pathlib import Path
from typing import Literal

from dragoman.model.errors import UserError
from dragoman.model.inputs.compression import compression_of, magic_of, plain_blocks

Kind = Literal["text", "utf-16", "utf-32", "zip", "tmx", "xliff", "parquet", "arrow"]
PAIRS = ("tmx", "xliff")  # hold languages side by side, each named
TABLES = ("parquet", "arrow")  # hold rows with named columns

HEAD = 4096  # bytes to look at
_BOMS: dict[bytes, Literal["utf-16", "utf-32"]] = {  # UTF-32 first: its mark begins like UTF-16's
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
    b"\x04\x22\x4d\x18": ("an LZ4 file", "unpack it (lz4 -d) and name the plain file"),
    b"\xff\x06\0\0sNaPpY": ("a Snappy file", "unpack it and name the plain file"),
    b"\x1f\x9d": ("a file of compress (.Z)", "unpack it (uncompress) and name the plain file"),
    b"LZIP\x01": ("an lzip file", "unpack it (lzip -d) and name the plain file"),
    b"\x89LZO\0\r\n": ("an LZO file", "unpack it (lzop -d) and name the plain file"),
    b"version https://git-lfs.github.com/": ("a Git LFS pointer, not its file", "fetch that: git lfs pull"),
    b"\x93NUMPY": ("a NumPy array", "write its texts as plain text, a line each"),
    b"\x89HDF\r\n": ("an HDF5 file", "write its texts as Parquet or JSON Lines"),
    b"GIF8": ("a picture", "name a file of text"),
    b"FEA1": ("a Feather file of version 1", "write it again as Parquet or Arrow"),
    b"Obj\x01": ("an Avro file", "write it again as Parquet or JSON Lines"),
    b"\x89PNG": ("a picture", "name a file of text"),
    b"\xff\xd8\xff": ("a picture", "name a file of text"),
    b"{\\rtf": ("an RTF document", "save it as plain text"),
}
_FOREIGN_TEXT = {  # the same for text files, by a pattern
    rb"(?i)<!doctype html|<html[ >]": ("an HTML page", "save its text as plain text"),
    rb"(?i)<(srcset|refset|tstset|!doctype mteval)": ("a test set in SGML", "take its segments out, a line each"),
    rb"<\?xml": ("XML of another kind than TMX and XLIFF", "save its text as plain text or TSV"),
    rb"WEBVTT|\d+\r?\n\d\d:\d\d:\d\d[,.]\d+ -->": ("subtitles (.srt, .vtt)", "save their text as plain text"),
    rb'(#.*\n)*msgid "': ("a gettext catalogue (.po)", "write its texts as TMX or XLIFF (po2tmx, po2xliff)"),
}
_OFFICE = {
    "[Content_Types].xml": ("an Office document (.docx, .xlsx)", "save it as plain text or TSV"),
    "mimetype": ("an OpenDocument file or e-book (.odt, .ods, .epub)", "save it as plain text or TSV"),
}
_WIDE_FEEDS = {  # UTF-32 first: half of its line feed is UTF-16's
    "utf-32-le": b"\n\0\0\0",
    "utf-32-be": b"\0\0\0\n",
    "utf-16-le": b"\n\0",
    "utf-16-be": b"\0\n",
}
MOST = 0.8  # of the 0x0A bytes belong to line feeds of UTF-16 or UTF-32, if there are any
_TAR = 257  # offset of a tar's magic


def kind_of(path: Path) -> Kind:
    """Returns the kind of content that the file holds.

    Raises UserError: the format is not read here (the message names it and what to do), or the compression is broken.
    """
    head = head_of(path)
    if (outer := compression_of(path)) != "plain" and (inner := magic_of(head)) != "plain":
        raise UserError(f"{path}: is compressed twice, {inner} within {outer}; unpack it once")
    kind = kind_of_head(head, str(path))
    return _check_archive(path) if kind == "zip" else kind


def kind_of_head(head: bytes, path: str) -> Kind:
    """Returns the kind of data with this beginning; a zip file may still be an Office document.

    Raises UserError: the kind cannot be read; names it and says what to do.
    """
    for start, (name, advice) in _FOREIGN.items():
        if head.startswith(start):
            raise UserError(f"{path}: is {name}; {advice}")
    if head[_TAR : _TAR + 5] == b"ustar":
        raise UserError(f"{path}: is a tar archive; unpack it and name the files in it, or take corpus=webdataset")
    for start, kind in _BINARY.items():
        if head.startswith(start):
            return kind
    if marked := marked_encoding(head):
        return _markup_of(head.decode(marked, "ignore").encode()) or marked
    for encoding, feed in _WIDE_FEEDS.items():
        letters = (head[place : place + len(feed)] for place in range(0, len(head), len(feed)))
        if sum(letter == feed for letter in letters) > MOST * head.count(b"\n"):
            raise UserError(
                f"{path}: looks like {encoding.upper()} without its mark; corpus.encoding={encoding} reads a corpus, "
                f"iconv -f {encoding} -t utf-8 makes UTF-8 of it"
            )
    if markup := _markup_of(head):
        return markup
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for pattern, (name, advice) in _FOREIGN_TEXT.items():
        if re.match(pattern, start):
            raise UserError(f"{path}: is {name}; {advice}")
    return "text"


def marked_encoding(head: bytes) -> Literal["utf-16", "utf-32"] | None:
    """Returns the encoding by a text's byte order mark; None if it has none or UTF-8's."""
    return next((encoding for mark, encoding in _BOMS.items() if head.startswith(mark)), None)


def ends_in_returns(head: bytes) -> bool:
    """Returns True if the lines of a text that begins so end in carriage returns alone, as on early Macintoshes."""
    return b"\r" in head[:-1] and b"\n" not in head


def head_of(path: Path) -> bytes:
    """Returns the first bytes of the file's content, unpacked."""
    if compression_of(path) == "plain":
        with path.open("rb") as file:
            return file.read(HEAD)
    return next(plain_blocks(path), b"")[:HEAD]


def _markup_of(head: bytes) -> Kind | None:
    """Returns the kind of an XML file; None if it is no XML, or a kind that is not known."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith(b"<"):
        return None
    root = re.search(rb"<(?:[\w.-]+:)?(tmx|xliff)[\s>]", text)
    return ("tmx" if root[1] == b"tmx" else "xliff") if root else None


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
