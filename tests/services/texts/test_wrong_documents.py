"""Documents that are damaged, hostile or of another kind are refused before they are unpacked."""

import io
import zipfile
from collections.abc import Callable

import pytest

from dragoman.model.errors import UserError
from dragoman.services.texts.documents.document import DocumentError
from dragoman.services.texts.documents.kinds import read_document
from tests.services.texts.document_samples import (
    SRT,
    XLIFF,
    make_docx,
    make_epub,
    make_pptx,
    packed,
)


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """A member's bytes are wrong, the table of members right."""
    place = content.index(b"word/document.xml") + 60
    return content[:place] + bytes(200) + content[place + 200 :]


def bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", bytes(21 * 2**20))
    return out.getvalue()


ENTITIES = '<!DOCTYPE a [<!ENTITY b "dog"><!ENTITY x SYSTEM "file:///etc/passwd">]>'
WRONG = {
    "no zip": ("a.docx", b"The dog sees the man."),
    "empty": ("a.odt", b""),
    "cut": ("a.pptx", cut(make_pptx())),
    "flipped": ("a.docx", flipped(make_docx())),
    "another kind": ("a.docx", make_pptx()),
    "a book as text": ("a.odt", make_epub()),
    "bomb": ("a.docx", bomb()),
    "members": ("a.docx", packed({f"{number}": "" for number in range(5001)})),
    "entities": ("a.docx", packed({"word/document.xml": f"{ENTITIES}<a>&b;&x;</a>"})),
    "xliff entities": ("a.xliff", XLIFF.replace("?>", f"?>{ENTITIES}", 1).encode()),
    "deep": ("a.docx", packed({"word/document.xml": "<a>" * 5000})),
    "no package": ("a.epub", packed({"META-INF/container.xml": "<a/>"})),
    "no xliff": ("a.xliff", b"<html/>"),
    "no json": ("a.json", b"{'a': 1}"),
    "deep json": ("a.json", b"[" * 100_000),
    "no times": ("a.srt", b"The dog sees the man."),
    "no vtt": ("a.vtt", SRT.encode()),
    "no po": ("a.po", b"\x00\x01 nothing"),
    "latin-1": ("a.txt", "Käse".encode("latin-1")),
    "ending": ("a.exe", b"MZ"),
    "no ending": ("a", b"The dog"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_read_is_refused(wrong: str) -> None:
    with pytest.raises(DocumentError) as problem:
        document = read_document(*WRONG[wrong])
        document.write([passage.text for passage in document.passages], "de")
    assert isinstance(problem.value, UserError) and str(problem.value)


def nested(depth: int) -> str:
    """Returns XML of so many elements inside of each other."""
    return "<a>" * depth + "</a>" * depth


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", lambda text: packed({"word/document.xml": text})),
        ("a.pptx", lambda text: packed({"ppt/presentation.xml": "<a/>", "ppt/slides/slide1.xml": text})),
        ("a.odt", lambda text: packed({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": text})),
        ("a.epub", lambda text: packed({"META-INF/container.xml": text})),
        ("a.xliff", lambda text: f"<xliff>{text[3:-4]}</xliff>".encode()),
    ],
)
def test_elements_are_nested_as_deep_as_in_a_text(name: str, content: Callable[[str], bytes]) -> None:
    with pytest.raises(DocumentError, match="elements are nested deeper than 100"):
        read_document(name, content(nested(101)))
    try:
        read_document(name, content(nested(100)))
    except DocumentError as problem:  # it is no book
        assert "nested" not in str(problem)


def test_members_are_not_unpacked_before_their_sizes_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.services.texts.documents.archive.MOST_BYTES", 100)
    with pytest.raises(DocumentError, match="bytes when unpacked; at most 100 are allowed"):
        read_document("a.docx", make_docx())
