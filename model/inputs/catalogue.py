"""Translated messages of gettext catalogues (PO files): the message's text and its translation by language."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.inputs.compression import plain_blocks
from dragoman.model.inputs.units import blanks
from dragoman.model.languages import nearest

CHARSET = re.compile(rb"charset=([\w.-]{1,40})")


class Content:
    """A file's text, which polib cannot take for a path: it would open the file that a string names."""

    def __init__(self, text: str) -> None:
        self.text = text

    def splitlines(self) -> list[str]:
        return self.text.split("\n")


def messages_of(path: Path, languages: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yields the texts of each translated message by language; of a plural both forms that have a text of their own.

    The header `Language` says which of the `languages` the translations are in; without it they are in the second of
    two. What is fuzzy, obsolete or not translated is left out.
    """
    import polib

    try:
        catalogue = polib.pofile(Content(_decoded(path)), encoding="utf-8")
    except (OSError, ValueError, IndexError, AttributeError) as problem:
        raise UserError(f"{path}: is no whole PO file ({problem})") from None
    own = _languages(path, str(catalogue.metadata.get("Language", "")).strip(), languages)
    for entry in catalogue:
        if entry.obsolete or entry.fuzzy or not entry.translated():
            continue
        forms = [text for _, text in sorted(entry.msgstr_plural.items())]
        pairs = [(entry.msgid, forms[0]), (entry.msgid_plural, forms[-1])] if forms else [(entry.msgid, entry.msgstr)]
        for texts in pairs:
            yield dict(zip(own, map(blanks, texts), strict=True))


def _languages(path: Path, declared: str, languages: Sequence[str]) -> tuple[str, str]:
    """Returns the language of the messages and that of their translations."""
    if declared:
        target = nearest(declared, tuple(languages))
        if target is None and len(languages) > 1:
            raise UserError(f"{path}: its translations are in {declared}, and the pair is {'-'.join(languages)}")
        source = next((language for language in languages if language != target), "und")
        return source, target or declared
    if len(languages) < 2:
        raise UserError(
            f"{path}: its header names no Language, so one side cannot be told from the other; "
            f"corpus=tsv corpus.train.file={path} takes the messages as the source"
        )
    return languages[0], languages[1]


def _decoded(path: Path) -> str:
    """Returns the text in the character set of its header; UTF-8 by default."""
    content = b"".join(plain_blocks(path))
    charset = CHARSET.search(content)
    name = charset[1].decode() if charset else "utf-8"
    try:
        text = content.decode("utf-8" if name.upper() in ("CHARSET", "UTF-8") else name)
    except (LookupError, UnicodeDecodeError) as problem:
        raise UserError(f"{path}: cannot be read as {name}, its charset ({problem})") from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
