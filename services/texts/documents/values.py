"""JSON: the values that are texts; keys, numbers and every blank stay as they are."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial

from dragoman.services.texts.documents.document import Document, DocumentError, Passage, read_text
from dragoman.services.texts.protected import has_letter

STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')  # of valid JSON
KEY = re.compile(r"[ \t\r\n]*:")


def read_json(content: bytes) -> Document:
    """Returns the texts of a JSON file."""
    mark, text = read_text(content)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise DocumentError(f"JSON: {problem}") from None
    found = list(_values(text))
    return Document([Passage(value) for _, _, value in found], partial(_write, mark, text, found))


def _values(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields place and text of each value to translate."""
    for one in STRING.finditer(text):
        if KEY.match(text, one.end()):
            continue
        value = json.loads(one.group())
        if has_letter(value) and not any("\ud800" <= sign <= "\udfff" for sign in value):
            yield one.start(), one.end(), value


def _write(mark: str, text: str, found: Sequence[tuple[int, int, str]], texts: Sequence[str], _language: str) -> bytes:
    out, place = [mark], 0
    for (start, end, source), new in zip(found, texts, strict=True):
        raw = text[start:end]
        escaped = raw.isascii() and not source.isascii()  # \u escapes stay \u escapes
        out += [text[place:start], raw if new == source else json.dumps(new, ensure_ascii=escaped)]
        place = end
    return "".join([*out, text[place:]]).encode()
