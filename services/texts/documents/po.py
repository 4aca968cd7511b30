"""gettext's catalogues: messages without a translation get one."""

import gettext
import io
import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import polib

from dragoman.model.inputs.catalogue import Content
from dragoman.services.texts.documents.document import Document, DocumentError, Passage, read_text
from dragoman.services.texts.protected import has_letter

SOME_NUMBERS = 1000  # by which a rule of plural forms is tried
_CODE = re.compile(r"%(?:\(\w+\)|\d+\$)?[#0+ -]*\d*(?:\.\d+)?[hlLqjzt]*[a-zA-Z]|\{\w*\}")  # %s, %(name)d, {name}


class _Form(NamedTuple):
    """A plural form of the target language."""

    number: int
    has_one: bool  # it is that of the number 1, and perhaps of others: 1, 21, 31 in Russian
    only_one: bool  # it is that of the number 1 alone


def read_po(content: bytes) -> Document:
    """Returns the messages of a catalogue that wait for a translation; fuzzy ones have one."""
    charset = re.search(rb"charset=([\w.-]{1,40})", content)
    try:
        mark, text = "", content.decode(charset[1].decode()) if charset else ""
    except (LookupError, UnicodeDecodeError):  # the CHARSET of a template
        text = ""
    # one that names no other charset is UTF-8, or refused with the byte that is not
    if not text or (charset and charset[1].upper() == b"UTF-8") or content.isascii():
        mark, text = read_text(content)
    if not text.strip():
        raise DocumentError("an empty file")
    try:
        width = max([78, *(len(line) for line in text.splitlines() if line.startswith('"'))])  # at which lines broke
        catalogue = polib.pofile(Content(text), wrapwidth=width, encoding="utf-8")
    except (OSError, ValueError, IndexError, AttributeError) as problem:
        raise DocumentError(f"gettext: {problem}") from None
    entries = [entry for entry in catalogue if not entry.obsolete and not entry.translated() and not entry.fuzzy]
    entries = [entry for entry in entries if has_letter(entry.msgid)]
    passages = []
    for entry in entries:
        passages += [Passage(entry.msgid), *([Passage(entry.msgid_plural)] if entry.msgid_plural else [])]
    return Document(passages, partial(_write, catalogue, entries, mark))


def _write(
    catalogue: polib.POFile, entries: Sequence[polib.POEntry], mark: str, texts: Sequence[str], language: str
) -> bytes:
    texts_left = iter(texts)
    forms = _plural_forms(catalogue.metadata.get("Plural-Forms", ""))
    for entry in entries:
        first = _as_source(entry.msgid, next(texts_left))
        if entry.msgid_plural:
            more = _as_source(entry.msgid_plural, next(texts_left))
            codes = [sorted(_CODE.findall(text)) for text in (entry.msgid, entry.msgid_plural)]
            # "One file" may stand for 1 alone; "%d file" also for 21, where a language has the same form for it
            counts = codes[0] == codes[1] and len(forms) > 1
            entry.msgstr_plural = {
                form.number: first if form.only_one or (form.has_one and counts) else more for form in forms
            }
        else:
            entry.msgstr = first
    if language and "Language" in catalogue.metadata and not catalogue.metadata["Language"]:
        catalogue.metadata["Language"] = language.replace("-", "_")
    kind = catalogue.metadata.get("Content-Type", "")
    if kind:
        catalogue.metadata["Content-Type"] = re.sub(r"charset=[^\s;]*", "charset=UTF-8", kind)
    return (mark + str(catalogue) + "\n").encode()


def _plural_forms(header: str) -> list[_Form]:
    """Returns the forms that a catalogue's Plural-Forms declares; without it, those of English."""
    match = re.fullmatch(r"\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]{1,500});?\s*", header)
    if match is None:
        return [_Form(0, True, True), _Form(1, False, False)]
    count = int(match[1])
    probe = polib.POFile()
    probe.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Plural-Forms": header}
    numbers = {form: str(form) for form in range(count)}
    probe.append(polib.POEntry(msgid="one", msgid_plural="many", msgstr_plural=numbers))
    try:
        rule = gettext.GNUTranslations(io.BytesIO(probe.to_binary()))
        chosen = [rule.ngettext("one", "many", number) for number in range(SOME_NUMBERS)]
    except (ValueError, ArithmeticError, RecursionError) as problem:
        raise DocumentError(f"gettext: Plural-Forms: {header!r} cannot be read ({problem})") from None
    of_one = chosen[1]
    return [_Form(form, text == of_one, text == of_one and chosen.count(text) == 1) for form, text in numbers.items()]


def _as_source(source: str, text: str) -> str:
    """Returns a translation that begins and ends with a line feed as its source does: msgfmt asks for it."""
    text = text.strip("\n")
    return "\n" * source.startswith("\n") + text + "\n" * (source.endswith("\n") and source != "\n")
