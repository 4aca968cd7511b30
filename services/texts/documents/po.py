"""gettext's catalogues: messages without a translation get one."""

from collections.abc import Sequence
from functools import partial

import polib

from dragoman.services.texts.documents.document import Document, DocumentError, Passage, read_text
from dragoman.services.texts.protected import has_letter


class _Content:
    """A file's text, which polib cannot take for a path: it would open the file that a string names."""

    def __init__(self, text: str) -> None:
        self.text = text

    def splitlines(self) -> list[str]:
        return self.text.splitlines()


def read_po(content: bytes) -> Document:
    """Returns the messages of a catalogue that wait for a translation; fuzzy ones have one.

    Raises:
        DocumentError: it cannot be read.
    """
    mark, text = read_text(content)
    if not text.strip():
        raise DocumentError("an empty file")
    try:
        catalogue = polib.pofile(_Content(text), wrapwidth=_width(text), encoding="utf-8")
    except (OSError, ValueError, IndexError, AttributeError) as problem:
        raise DocumentError(f"gettext: {problem}") from None
    entries = [one for one in catalogue if not one.obsolete and not one.translated() and not one.fuzzy]
    entries = [one for one in entries if has_letter(one.msgid)]
    passages = []
    for one in entries:
        passages += [Passage(one.msgid), *([Passage(one.msgid_plural)] if one.msgid_plural else [])]
    return Document(passages, partial(_write, catalogue, entries, mark))


def _width(text: str) -> int:
    """Returns the length at which lines were broken."""
    return max([78, *(len(line) for line in text.splitlines() if line.startswith('"'))])


def _write(
    catalogue: polib.POFile, entries: Sequence[polib.POEntry], mark: str, texts: Sequence[str], language: str
) -> bytes:
    given = iter(texts)
    for one in entries:
        first = _as_source(one.msgid, next(given))
        if one.msgid_plural:
            more = _as_source(one.msgid_plural, next(given))
            one.msgstr_plural = {number: first if not number else more for number in one.msgstr_plural or (0, 1)}
        else:
            one.msgstr = first
    if language and "Language" in catalogue.metadata and not catalogue.metadata["Language"]:
        catalogue.metadata["Language"] = language.replace("-", "_")
    return (mark + str(catalogue) + "\n").encode()


def _as_source(source: str, text: str) -> str:
    """Returns a translation that begins and ends with a line feed as its source does: msgfmt asks for it."""
    text = text.strip("\n")
    return "\n" * source.startswith("\n") + text + "\n" * (source.endswith("\n") and source != "\n")
