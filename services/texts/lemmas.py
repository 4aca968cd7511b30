"""Words' base forms by simplemma's dictionaries: "invoices" is a form of "invoice", "important" none of "import"."""

from contextlib import suppress
from functools import lru_cache

import simplemma

from dragoman.model.languages import base_language
from dragoman.model.text.letters import fold_case
from dragoman.services.texts.casing import NOUN_CAPITALS

DICTIONARIES = {"no": "nb", "hr": "hbs", "sr": "hbs", "bs": "hbs", "sh": "hbs", "fil": "tl"}  # under another code
CACHED = 65_536  # words


@lru_cache(CACHED)
def lemma(word: str, language: str) -> str:
    """Returns a word's base form in small letters; in a language without a dictionary the word itself.

    The first word of a language loads its dictionary: a second and some 100 MB (Polish 3 s and 400 MB).
    """
    base = base_language(language or "und")
    if word[:-1].isupper() and word[-1] == "s" and len(word) > 2:  # PDFs
        word = word[:-1]
    if base not in NOUN_CAPITALS:
        word = fold_case(word, base)
    elif word.isupper() and len(word) > 1:
        word = word.capitalize()
    with suppress(ValueError):  # no dictionary
        word = simplemma.lemmatize(word, lang=DICTIONARIES.get(base, base))
    return fold_case(word, base)
