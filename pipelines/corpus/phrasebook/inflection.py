"""German declension: articles, pronouns, adjective endings, noun cases. Tables in the order m, f, n, plural."""

from typing import Literal

Case = Literal["nom", "acc", "dat", "gen"]
Ending = Literal["strong", "weak", "mixed"]
COLUMN = {"m": 0, "f": 1, "n": 2, "p": 3}  # the form of a noun: its gender, or p in the plural

DEFINITE: dict[Case, tuple[str, str, str, str]] = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
    "gen": ("des", "der", "des", "der"),
}
RELATIVE: dict[Case, tuple[str, str, str, str]] = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "denen"),
    "gen": ("dessen", "deren", "dessen", "deren"),
}
EIN: dict[Case, tuple[str, str, str, str]] = {  # ein, kein, mein, Ihr ...
    "nom": ("", "e", "", "e"),
    "acc": ("en", "e", "", "e"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("es", "er", "es", "er"),
}
DIESER: dict[Case, tuple[str, str, str, str]] = {  # dieser, jeder, welcher, alle, viele, einige
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("es", "er", "es", "er"),
}
ADJECTIVE: dict[Ending, dict[Case, tuple[str, str, str, str]]] = {
    "weak": {
        "nom": ("e", "e", "e", "en"),
        "acc": ("en", "e", "e", "en"),
        "dat": ("en", "en", "en", "en"),
        "gen": ("en", "en", "en", "en"),
    },
    "mixed": {
        "nom": ("er", "e", "es", "en"),
        "acc": ("en", "e", "es", "en"),
        "dat": ("en", "en", "en", "en"),
        "gen": ("en", "en", "en", "en"),
    },
    "strong": {
        "nom": ("er", "e", "es", "e"),
        "acc": ("en", "e", "es", "e"),
        "dat": ("em", "er", "em", "en"),
        "gen": ("en", "er", "en", "er"),
    },
}
CONTRACTIONS = {
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("bei", "dem"): "beim",
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


def definite(case: Case, form: str) -> str:
    """The definite article of a case and form (m, f, n, p)."""
    return DEFINITE[case][COLUMN[form]]


def relative(case: Case, form: str) -> str:
    """The relative pronoun of a case and form."""
    return RELATIVE[case][COLUMN[form]]


def ein_word(stem: str, case: Case, form: str) -> str:
    """ein, kein and the possessives."""
    return stem + EIN[case][COLUMN[form]]


def der_word(stem: str, case: Case, form: str) -> str:
    """dieser, jeder, welcher, and in the plural alle, viele, einige."""
    return stem + DIESER[case][COLUMN[form]]


def adjective(stem: str, ending: Ending, case: Case, form: str) -> str:
    """An attributive adjective. A stem in -e (müde, leise) does not double it."""
    return stem.removesuffix("e") + ADJECTIVE[ending][case][COLUMN[form]]


def noun(nominative: str, genitive: str, plural: str, gender: str, case: Case, many: bool) -> str:
    """A noun in a case and number.

    Masculine nouns whose genitive ends in -n are of the weak declension and carry it in accusative and dative too.
    The dative plural adds -n unless the plural ends in -n or -s.
    """
    if many:
        return plural + "n" if case == "dat" and plural[-1] not in "ns" else plural
    if gender == "f" or case == "nom":
        return nominative
    if case == "gen" or (gender == "m" and genitive != nominative and genitive[-1] == "n"):
        return genitive
    return nominative
