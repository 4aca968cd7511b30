"""A document as its kinds' files read it: passages to translate, and the way back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.model.errors import UserError
from dragoman.services.texts.options import TextOptions


class Passage(NamedTuple):
    """A text of a document, with the markup that it is in."""

    text: str
    options: TextOptions = TextOptions()


@dataclass(frozen=True)
class Document:
    """Passages in the order of the document; `write(texts, language)` returns the file with texts in their place.

    It is written once: `write` may change what was read.
    """

    passages: Sequence[Passage]
    write: Callable[[Sequence[str], str], bytes]
    notes: Sequence[str] = ()  # what its owner has to be told

    def __post_init__(self) -> None:
        if not self.passages:
            object.__setattr__(self, "notes", (*self.notes, "no text to translate was found in it"))


class DocumentError(UserError):
    """A file that cannot be read as what its name says."""


def read_text(content: bytes) -> tuple[str, str]:
    """Returns the byte order mark and the text of a file in UTF-8. Raises DocumentError: it is not UTF-8."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise DocumentError(f"not UTF-8 (byte 0x{content[problem.start]:02x} at {problem.start})") from None
    return (text[:1], text[1:]) if text.startswith("\ufeff") else ("", text)
