"""Everything that reads, splits, masks or matches what strangers send, a row each: a new reader joins by a row.

The tests of growth, and the one that no reader opens a file, go through this table.
"""

import contextlib
import io
import zipfile
from collections.abc import Callable
from xml.sax.saxutils import escape

from dragoman.model.alignment.spans import token_spans, word_spans
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Translation
from dragoman.model.text.letters import fold_case
from dragoman.model.text.loops import collapse, goes_round
from dragoman.model.text.normalise import normalise
from dragoman.model.text.sentences import split
from dragoman.services.endpoint.plain_sentences import is_plain
from dragoman.services.texts import casing, icu
from dragoman.services.texts.documents.kinds import KINDS, PACKED, read_document
from dragoman.services.texts.glossary import Glossary, read_tbx
from dragoman.services.texts.markup import check_markup
from dragoman.services.texts.options import FORMATS, Format, TextOptions
from dragoman.services.texts.prepare import prepare, spoken_text
from dragoman.services.texts.protected import find_masks
from dragoman.services.texts.translating import cost

MEMBERS = {  # of an archive, the last one with the text
    ".docx": {
        "word/document.xml": '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
        "<w:p><w:r><w:t>{}</w:t></w:r></w:p></w:body></w:document>",
    },
    ".pptx": {
        "ppt/presentation.xml": "<a/>",
        "ppt/slides/slide1.xml": '<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sld>',
    },
    ".odt": {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": '<o:document-content xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><o:body><o:text><t:p>{}</t:p></o:text></o:body>'
        "</o:document-content>",
    },
    ".epub": {
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="a.opf"/></rootfiles></container>',
        "a.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item href="a.xhtml" media-type="application/xhtml+xml"/></manifest></package>',
        "a.xhtml": "<html><body><p>{}</p></body></html>",
    },
}
PATTERNS = {  # a document of each kind around a text
    ".srt": "1\n00:00:01,000 --> 00:00:02,000\n{}\n",
    ".vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n",
    ".po": 'msgid "{}"\nmsgstr ""\n',
    ".json": '{{"a": "{}"}}',
    ".xliff": '<xliff version="1.2"><file><body><trans-unit id="1"><source>{}</source></trans-unit></body></file>'
    "</xliff>",
}
PATTERNS[".xlf"] = PATTERNS[".xliff"]
TBX = (
    '<martif type="TBX"><text><body><termEntry><langSet xml:lang="en"><tig><term>{0}</term></tig></langSet>'
    '<langSet xml:lang="de"><tig><term>{0}</term></tig></langSet></termEntry></body></text></martif>'
)


def quoted(ending: str, text: str) -> str:
    """Returns a text as it stands in a document of this kind."""
    if ending in (".po", ".json"):
        return text.replace("\\", "\\\\").replace('"', '\\"')
    return escape(text) if ending in MEMBERS else text


def packed(ending: str, text: str) -> bytes:
    """Returns an archive with this text."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, pattern in MEMBERS[ending].items():
            archive.writestr(name, pattern.replace("{}", text))
    return buffer.getvalue()


def document(ending: str, bare: bool) -> Callable[[str], object]:
    """Returns the reader and writer of a kind. `bare`: the text is markup, or the whole file, as it comes."""

    def work(text: str) -> object:
        content = text if bare else quoted(ending, text)
        whole = bare and ending not in MEMBERS
        file = (
            packed(ending, content)
            if ending in MEMBERS
            else (content if whole else PATTERNS.get(ending, "{}").format(content)).encode()
        )
        found = read_document(f"a{ending}", file)
        for passage in found.passages:
            check_markup(*passage)
        return found.write([passage.text for passage in found.passages], "de")

    return work


def prepared(form: Format) -> Callable[[str], object]:
    glossary = Glossary({"dog": "Hund", "red apple": "roter Apfel"})

    def work(text: str) -> object:
        found = prepare(text, TextOptions(format=form, glossary=glossary), "en", 400, "de")
        while found.lines:
            found.take([translated(line) for line in found.lines])
        return found.rebuild()

    return work


def translated(line: str, missing: bool = False) -> Translation:
    """Returns what a model says to a line: the same, or without what must not change and without its quotes."""
    return Translation("Ein Hund 9", 0.0, missing=(line[:3],)) if missing else Translation(line, 0.0)


def through(missing: bool) -> Callable[[str], object]:
    """Returns the way through a model and back. `missing`: sentences are cut and asked again."""

    def work(text: str) -> object:
        found = prepare(text, TextOptions(), "en", 400, "de")
        while found.lines:
            found.take([translated(line, missing) for line in found.lines])
        return found.rebuild()

    return work


def entries(text: str) -> object:
    """Reads a text as a terminology's term."""
    return read_tbx(TBX.format(escape(text)).encode(), "en", "de", "terms")


def terms(text: str) -> object:
    """Looks the words of a text up in a glossary that is made of it, and in one that begins like it."""
    words = text.split()
    glossary = Glossary(
        dict.fromkeys([*words[:500], " ".join(words[:9]), text[:1000].strip()] if words else ["a"], "x")
    )
    return list(glossary.find(text, "en", "de"))


def spans(text: str) -> object:
    """Places the tokens of a text, of which a few are unknown, in it: at most as many as a network has positions."""
    pieces = [text[start : start + 3].strip() if start % 5 else None for start in range(0, min(len(text), 768), 3)]
    return token_spans(pieces, text), word_spans(text)


assert set(PACKED) == set(MEMBERS), "a kind of archive has no members here"
READERS: dict[str, Callable[[str], object]] = {
    "masks": lambda text: list(find_masks(text)),
    "icu": lambda text: icu.read_message(text, 0),
    "sentences": lambda text: list(split(text, 400, "en")),
    "plain": lambda text: is_plain(text, TextOptions(), 10**9),
    "cost": lambda text: cost([text], TextOptions()),
    "normalise": lambda text: normalise(text, "NFC"),
    "casing": lambda text: (casing.is_shouted(text), casing.calm(text, "en"), fold_case(text, "de")),
    "repeats": lambda text: (goes_round(text, "a"), collapse(text)),
    "terms": terms,
    "spans": spans,
    "translated": through(missing=True),
    "copied": through(missing=False),
    "entries": entries,
    **{f"prepare {form}": prepared(form) for form in FORMATS},
    **{f"spoken {form}": lambda text, form=form: spoken_text(text, TextOptions(format=form)) for form in FORMATS},
    **{f"check {form}": lambda text, form=form: check_markup(text, TextOptions(format=form)) for form in FORMATS},
    **{f"document {ending}": document(ending, False) for ending in KINDS},
    **{f"bare {ending}": document(ending, True) for ending in KINDS},
}


def read(name: str, text: str) -> None:
    """Reads a text by a row of READERS; what is refused is read too."""
    with contextlib.suppress(UserError):
        READERS[name](text)
