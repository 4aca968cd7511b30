"""Files that are one text: plain, Markdown, HTML."""

from collections.abc import Callable, Sequence
from functools import partial

from dragoman.services.texts.documents.document import Document, Passage, read_text
from dragoman.services.texts.options import Format, TextOptions


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
    return Document([Passage(one) for one in passages], partial(_write, mark))


def _write(mark: str, texts: Sequence[str], _language: str) -> bytes:
    return "".join([mark, *texts]).encode()


read_html: Callable[[bytes], Document] = partial(read_whole, form="html")
read_markdown: Callable[[bytes], Document] = partial(read_whole, form="markdown")
