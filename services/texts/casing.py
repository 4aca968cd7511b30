"""Capitals: a text in capitals is given to the model as a sentence, and its translation is put in capitals."""

from dragoman.model.languages import base_language

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


def is_shouted(text: str) -> bool:
    """Returns True for a text of capitals with two letters or more."""
    return text.isupper() and sum(sign.isupper() for sign in text) > 1


def calm(text: str) -> str:
    """Returns a text of capitals as a sentence, in the same length."""
    signs, first = [], True
    for sign in text:
        small = sign.lower()
        signs.append(sign if first or len(small) != len(sign) else small)
        first = first and not sign.isalpha()
    return "".join(signs)


def starts_small(text: str) -> bool:
    """Returns True if the first letter of a text is a small one."""
    first = next((sign for sign in text if sign.isalpha()), "")
    return first.islower()


def small_first(text: str, target: str) -> str:
    """Returns a translation that begins small where its language lets it: not a noun in German."""
    place = next((at for at, sign in enumerate(text) if sign.isalpha()), -1)
    if place < 0 or len(text[place].lower()) != 1:
        return text
    end = place
    while end < len(text) and text[end].isalpha():
        end += 1
    word = text[place:end]
    if not word[1:].islower() and len(word) > 1:
        return text
    if base_language(target or "und") in NOUN_CAPITALS and word.lower() not in SMALL_WORDS:
        return text
    return text[:place] + text[place].lower() + text[place + 1 :]
