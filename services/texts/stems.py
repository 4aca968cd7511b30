"""Stems of words by Snowball's algorithms, which tell that "invoices" is a form of "invoice"."""

from functools import lru_cache

import snowballstemmer

from dragoman.model.languages import base_language

ALGORITHMS = {
    **{"ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "cs": "czech", "da": "danish", "nl": "dutch"},
    **{"en": "english", "eo": "esperanto", "et": "estonian", "fi": "finnish", "fr": "french", "de": "german"},
    **{"el": "greek", "hi": "hindi", "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian"},
    **{"lt": "lithuanian", "ne": "nepali", "nb": "norwegian", "no": "norwegian", "nn": "norwegian", "fa": "persian"},
    **{"pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "es": "spanish"},
    **{"sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish"},
}
CACHED = 65_536  # words


@lru_cache(CACHED)
def stem(word: str, language: str) -> str:
    """Returns a word's stem; in a language without an algorithm the word in small letters."""
    word = word.casefold()
    name = ALGORITHMS.get(base_language(language or "und"))
    if name is None or name not in snowballstemmer.algorithms():
        return word
    found: str = snowballstemmer.stemmer(name).stemWord(word)  # a new one: they are not safe among threads
    return found
