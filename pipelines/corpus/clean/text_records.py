"""The records of a text: its lines or paragraphs, in pieces of at most so many words and characters."""

from collections.abc import Iterable, Iterator, Mapping

from dragoman.pipelines.corpus.read.sources import TextForm


def cut(text: str, max_words: int, max_chars: int) -> Iterator[str]:
    """Splits a normalised text into pieces of at most so many words and characters; 0 means no limit.

    No word is lost. Pieces end at a space; a single word longer than `max_chars` is split at the limit.
    """
    if max_words and text.count(" ") >= max_words:
        words = text.split(" ")
        pieces: Iterable[str] = (
            " ".join(words[first : first + max_words]) for first in range(0, len(words), max_words)
        )
    else:
        pieces = (text,)
    for piece in pieces:
        start = 0
        while max_chars and len(piece) - start > max_chars:
            space = piece.rfind(" ", start + 1, start + max_chars + 1)
            stop = space if space > 0 else start + max_chars
            yield piece[start:stop]
            start = stop + (space > 0)
        yield piece[start:]


def texts_of(lines: Iterable[str], bad: Mapping[int, str], form: TextForm) -> Iterator[tuple[int, str]]:
    """Yields (number of the first line, text) of every line with text, or of every run of lines without a blank one.

    With `form.blank` of every readable line, with text or without. An unreadable line does not end a paragraph.
    """
    if not form.paragraphs:
        yield from ((number, line) for number, line in enumerate(lines) if line or (form.blank and number not in bad))
        return
    first = 0
    waiting: list[str] = []
    for number, line in enumerate(lines):
        if line:
            first = first if waiting else number
            waiting.append(line)
        elif waiting and number not in bad:
            yield first, " ".join(waiting)
            waiting = []
    if waiting:
        yield first, " ".join(waiting)
