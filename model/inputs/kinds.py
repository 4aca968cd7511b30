"""Recognises a file's content by its first bytes once decompressed: text, a container of texts, or an unread format."""

import re
import zipfile
from pathlib import Path
from typing import Literal

from dragoman.model.errors import UserError
from dragoman.model.inputs.compression import compression_of, magic_of, plain_blocks

Kind = Literal["text", "utf-16", "zip", "tmx", "po", "parquet"]
PAIRS = ("tmx", "po")  # hold languages side by side

HEAD = 4096  # bytes to look at
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks
MOST_NULS = 0.01  # of a text's first bytes: UTF-16 without its mark, and binary files, have more
READ = "read are text, TSV, JSON Lines, TMX, PO, Parquet, zip archives of them, and WebDataset tars"
_BINARY: dict[bytes, Kind] = {b"PAR1": "parquet", b"PK\x03\x04": "zip", b"PK\x05\x06": "zip"}
_PO = re.compile(rb'(?:\s|#[^\n]*\n)*(?:msgctxt "[^\n]*\n)?msgid "')
# Common files that are not read: how they begin -> the name, and what to do.
_FOREIGN = {
    rb"%PDF-": ("a PDF document", "save its text as plain text"),
    rb"\xde\x12\x04\x95|\x95\x04\x12\xde": ("a compiled gettext catalogue (.mo)", "msgunfmt makes its .po file"),
    rb"\x93NUMPY": ("an array of NumPy (.npy)", "texts are read, a line each"),
    rb"version https://git-lfs\.github\.com/": ("a Git LFS pointer, not its file", "fetch that: git lfs pull"),
    rb"(?i)\s*(<!doctype html|<html[ >])": ("an HTML page", "save its text as plain text"),
    rb"\s*<\?xml": ("XML of another kind than TMX", "save its text as plain text or TSV"),
    rb"WEBVTT|\d+\r?\n\d\d:\d\d:\d\d[,.]\d+ -->": ("subtitles (.srt, .vtt)", "save their text as plain text"),
}
_OFFICE = {
    "[Content_Types].xml": ("an Office document (.docx, .xlsx)", "save it as plain text or TSV"),
    "mimetype": ("an OpenDocument file or e-book (.odt, .ods, .epub)", "save it as plain text or TSV"),
}
_TAR = 257  # offset of a tar's magic


def kind_of(path: Path) -> Kind:
    """Returns the kind of content that the file holds."""
    head = head_of(path)
    if (outer := compression_of(path)) != "plain" and (inner := magic_of(head)) != "plain":
        raise UserError(f"{path}: is compressed twice, {inner} within {outer}; unpack it once")
    kind = kind_of_head(head, str(path))
    return _check_archive(path) if kind == "zip" else kind


def kind_of_head(head: bytes, path: str) -> Kind:
    """Returns the kind of data with this beginning; a zip file may still be an Office document."""
    if head[_TAR : _TAR + 5] == b"ustar":
        raise UserError(f"{path}: is a tar archive; unpack it and name the files in it, or take corpus=webdataset")
    for start, kind in _BINARY.items():
        if head.startswith(start):
            return kind
    if is_utf_16(head):
        return "tmx" if _is_tmx(head.decode("utf-16", "ignore").encode()) else "utf-16"
    text = head.removeprefix(b"\xef\xbb\xbf")
    if _is_tmx(text):
        return "tmx"
    if _PO.match(text):
        return "po"
    for pattern, (name, advice) in _FOREIGN.items():
        if re.match(pattern, text):
            raise UserError(f"{path}: is {name}; {advice}")
    if head.count(0) > MOST_NULS * len(head):
        raise UserError(
            f"{path}: is no text: a binary file, or UTF-16 without its mark, of which iconv -f utf-16le -t utf-8 makes "
            f"UTF-8; {READ}"
        )
    return "text"


def is_utf_16(head: bytes) -> bool:
    """Returns True if a text begins with the byte order mark of UTF-16."""
    return head.startswith(UTF_16)


def head_of(path: Path) -> bytes:
    """Returns the first bytes of the file's content, unpacked."""
    if compression_of(path) == "plain":
        with path.open("rb") as file:
            return file.read(HEAD)
    return next(plain_blocks(path), b"")[:HEAD]


def _is_tmx(text: bytes) -> bool:
    return text.lstrip().startswith(b"<") and re.search(rb"<(?:[\w.-]+:)?tmx[\s>]", text) is not None


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
