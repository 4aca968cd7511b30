"""The words that may come next in a translation: translations that begin alike and differ in the word behind that."""

from collections.abc import Sequence

import regex
from starlette.exceptions import HTTPException

from dragoman.model.text.letters import is_blankless
from dragoman.services.texts.prepare import Prepared

LETTER = r"[\p{L}\p{M}\p{N}]"
INSIDE = regex.compile(rf"(?<={LETTER}){LETTER}")
WORD = regex.compile(rf"\s*({LETTER}+|\S|$)")
PIECES = 3  # translations to ask for, for each that is wanted: several may begin with pieces of one word


def check_sentence(text: Prepared) -> None:
    """Refuses a text that is not one sentence of words: only the model's own words can be forced.

    Raises HTTPException: 400.
    """
    if text.sentences != 1 or text.masked:
        reason = "prefix needs a text of one sentence, with nothing in it that is kept from the model"
        raise HTTPException(400, f"Invalid request: {reason}")


def differing(texts: Sequence[str], prefix: str) -> list[str]:
    """Returns the texts that begin with the words of `prefix`, the first with each next word.

    Raises HTTPException: 400, there are none.
    """
    word_by_start: dict[str | None, str] = {}
    for text in texts:
        word_by_start.setdefault(next_word(text, prefix), text)
    word_by_start.pop(None, None)
    if not word_by_start:
        raise HTTPException(400, "Invalid request: the model writes no translation that begins with prefix")
    return list(word_by_start.values())


def next_word(text: str, prefix: str) -> str | None:
    """Returns the word behind `prefix`, empty at the text's end; None if the text does not begin with its words."""
    place = len(prefix)
    if not text.startswith(prefix) or (INSIDE.match(text, place) and not is_blankless(text[place])):
        return None
    match = WORD.match(text, place)
    return match[1] if match else ""
