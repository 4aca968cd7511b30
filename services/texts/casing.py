"""Forms of words: capitals, which a model is not given as such, and base forms.

Base forms are those of simplemma's dictionaries: "invoices" is a form of "invoice", "important" none of "import".
"""

from contextlib import suppress
from functools import lru_cache

import simplemma

from dragoman.model.languages import base_language
from dragoman.model.text.letters import fold_case

# Languages whose nouns have capitals: what begins a sentence may keep its capital elsewhere.
NOUN_CAPITALS = frozenset(("de", "lb", "nds", "bar", "gsw"))
# Their words of the closed classes, which are no nouns.
_SMALL_WORDS = (
    "der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner mein meine meinen "
    "meinem dein deine sein seine seinen seinem ihr ihre ihren ihrem unser unsere euer eure dieser diese dieses "
    "diesen diesem jeder jede jedes jeden jedem alle viele einige manche ich du er sie es wir mich dich ihn uns "
    "euch mir dir ihm ihnen wer was wen wem wo wann warum wie woher wohin welcher welche welches in im an am auf "
    "aus bei beim mit nach von vom vor zu zum zur für über unter um durch gegen ohne zwischen neben hinter seit und "
    "oder aber denn sondern wenn weil dass ob als nicht nie hier da dort dann heute morgen gestern jetzt ja nein "
    "bitte ist sind war hat "
)
SMALL_WORDS = frozenset(_SMALL_WORDS.split())
DICTIONARIES = {"no": "nb", "hr": "hbs", "sr": "hbs", "bs": "hbs", "sh": "hbs", "fil": "tl"}  # under another code
CACHED = 65_536  # words


def is_shouted(text: str) -> bool:
    """Returns True for a text of capitals with two letters or more."""
    return text.isupper() and sum(sign.isupper() for sign in text) > 1


def small_letters(text: str, language: str) -> str:
    """Returns a text in small letters, in the same length."""
    small = fold_case(text, language)  # whole: a final sigma is another letter
    if len(small) != len(text):
        folded = (fold_case(sign, language) for sign in text)
        small = "".join(low if len(low) == 1 else sign for sign, low in zip(text, folded, strict=True))
    return small


def calm(text: str, language: str) -> str:
    """Returns a text of capitals as a sentence, in the same length."""
    first = next((at + 1 for at, sign in enumerate(text) if sign.isalpha()), 0)
    return text[:first] + small_letters(text, language)[first:]


def starts_small(text: str) -> bool:
    """Returns True if the first letter of a text is a small one."""
    first = next((sign for sign in text if sign.isalpha()), "")
    return first.islower()


def small_first(text: str, target: str) -> str:
    """Returns a translation that begins small where its language lets it: not a noun in German."""
    place = next((at for at, sign in enumerate(text) if sign.isalpha()), -1)
    if place < 0 or len(text[place].lower()) != 1:
        return text
    if base_language(target or "und") == "nl" and text[place : place + 2] == "IJ":
        return f"{text[:place]}ij{text[place + 2 :]}"
    end = place
    while end < len(text) and text[end].isalpha():
        end += 1
    word = text[place:end]
    if not word[1:].islower() and len(word) > 1:
        return text
    if base_language(target or "und") in NOUN_CAPITALS and word.lower() not in SMALL_WORDS:
        return text
    return text[:place] + fold_case(text[place], target) + text[place + 1 :]


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
