"""Everything that reads, splits, masks or matches what strangers send, a row each: a new reader joins by a row.

The tests of growth, and the one that no reader opens a file, go through this table.
"""

import contextlib
import io
import zipfile
from collections.abc import Callable

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Translation
from dragoman.model.text.sentences import split
from dragoman.services.texts import icu
from dragoman.services.texts.documents.kinds import PACKED, read_document
from dragoman.services.texts.glossary import Glossary, read_tbx
from dragoman.services.texts.markup import check_markup
from dragoman.services.texts.options import FORMATS, Format, TextOptions
from dragoman.services.texts.prepare import prepare, spoken_text
from dragoman.services.texts.protected import find_masks

MEMBERS = {
    ".docx": (
        "word/document.xml",
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
        "<w:p><w:r><w:t>{}</w:t></w:r></w:p></w:body></w:document>",
    ),
    ".pptx": (
        "ppt/slides/slide1.xml",
        '<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sld>',
    ),
    ".odt": (
        "content.xml",
        '<o:document-content xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><o:body><o:text><t:p>{}</t:p></o:text></o:body>'
        "</o:document-content>",
    ),
}
PATTERNS = {  # a document of each kind around a text
    ".srt": "1\n00:00:01,000 --> 00:00:02,000\n{}\n",
    ".vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n",
    ".po": 'msgid "{}"\nmsgstr ""\n',
    ".json": '{{"a": "{}"}}',
    ".xliff": '<xliff version="1.2"><file><body><trans-unit id="1"><source>{}</source></trans-unit></body></file>'
    "</xliff>",
}


def packed(ending: str, text: str) -> bytes:
    """Returns an office document with this text."""
    name, pattern = MEMBERS[ending]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, pattern.format(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")))
    return buffer.getvalue()


def document(ending: str, bare: bool) -> Callable[[str], object]:
    """Returns the reader and writer of a kind. `bare`: the text is the whole file."""

    def work(text: str) -> object:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"') if ending in (".po", ".json") and not bare else text
        content = (
            packed(ending, text)
            if ending in MEMBERS
            else (quoted if bare else PATTERNS[ending].format(quoted)).encode()
        )
        found = read_document(f"a{ending}", content)
        for passage in found.passages:
            check_markup(*passage)
        return found.write([passage.text for passage in found.passages], "de")

    return work


def prepared(form: Format) -> Callable[[str], object]:
    glossary = Glossary({"dog": "Hund", "red apple": "roter Apfel"})

    def work(text: str) -> object:
        found = prepare(text, TextOptions(format=form, glossary=glossary), "en", 400, "de")
        return found.lines, found.rebuild().text

    return work


def translated(text: str) -> object:
    """Translates by a model that loses what must not change, and quotes: sentences are cut and asked again."""
    found = prepare(text, TextOptions(), "en", 400, "de")
    while found.lines:
        found.take([Translation("Ein Hund 9", 0.0, missing=(line[:3],)) for line in found.lines])
    return found.rebuild()


READERS: dict[str, Callable[[str], object]] = {
    "masks": lambda text: list(find_masks(text)),
    "icu": lambda text: icu.read_message(text, 0),
    "sentences": lambda text: list(split(text, 400, "en")),
    "tbx": lambda text: read_tbx(f'<martif type="TBX"><text>{text}</text></martif>'.encode(), "en", "de", "x"),
    "translated": translated,
    **{f"prepare {form}": prepared(form) for form in FORMATS},
    **{f"spoken {form}": lambda text, form=form: spoken_text(text, TextOptions(format=form)) for form in FORMATS},
    **{f"check {form}": lambda text, form=form: check_markup(text, TextOptions(format=form)) for form in FORMATS},
    **{f"document {ending}": document(ending, False) for ending in (*PATTERNS, *MEMBERS)},
    **{f"bare {ending}": document(ending, True) for ending in (".txt", ".md", ".html", *PATTERNS)},
}
assert set(PACKED) - {".epub"} == set(MEMBERS)


def read(name: str, text: str) -> None:
    """Reads a text by a row of READERS; what is refused is read too."""
    with contextlib.suppress(UserError):
        READERS[name](text)
