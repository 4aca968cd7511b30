"""Files that are text: plain, Markdown, HTML; of JSON the values, while keys, numbers and every blank stay."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dragoman.services.texts.documents.document import Document, DocumentError, Passage, read_text
from dragoman.services.texts.options import Format, TextOptions
from dragoman.services.texts.protected import has_letter

STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')  # of valid JSON
Value = tuple[int, int, str]  # its place and the text
KEY = re.compile(r"[ \t\r\n]*:")


def read_whole(content: bytes, form: Format) -> Document:
    """Returns a file whose text is one passage."""
    mark, text = read_text(content)
    return Document([Passage(text, TextOptions(format=form))], partial(_write, mark))


def read_plain(content: bytes) -> Document:
    """Returns a plain text in its paragraphs: what stands between blank lines."""
    mark, text = read_text(content)
    passages: list[str] = []
    blank = True  # the line before
    for line in text.splitlines(keepends=True):
        if blank or not line.strip():
            passages.append(line)
        else:
            passages[-1] += line
        blank = not line.strip()
    return Document([Passage(passage) for passage in passages], partial(_write, mark))


def _write(mark: str, texts: Sequence[str], _language: str) -> bytes:
    return "".join([mark, *texts]).encode()


read_html: Callable[[bytes], Document] = partial(read_whole, form="html")
read_markdown: Callable[[bytes], Document] = partial(read_whole, form="markdown")


def read_json(content: bytes) -> Document:
    """Returns the texts of a JSON file."""
    mark, text = read_text(content)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise DocumentError(f"JSON: {problem}") from None
    values = list(_values(text))
    return Document([Passage(value) for _, _, value in values], partial(_write_values, mark, text, values))


def _values(text: str) -> Iterator[Value]:
    """Yields place and text of each value to translate."""
    for match in STRING.finditer(text):
        if KEY.match(text, match.end()):
            continue
        value = json.loads(match.group())
        if has_letter(value) and not any("\ud800" <= sign <= "\udfff" for sign in value):
            yield match.start(), match.end(), value


def _write_values(
    mark: str, text: str, spans: Sequence[tuple[int, int, str]], texts: Sequence[str], _language: str
) -> bytes:
    out, place = [mark], 0
    for (start, end, source), new in zip(spans, texts, strict=True):
        raw = text[start:end]
        escaped = raw.isascii() and not source.isascii()  # \u escapes stay \u escapes
        out += [text[place:start], raw if new == source else json.dumps(new, ensure_ascii=escaped)]
        place = end
    return "".join([*out, text[place:]]).encode()
