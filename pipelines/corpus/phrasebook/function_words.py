"""Closed classes: pronouns, possessives, numerals, set adverbials, conjunctions, modal verbs."""

from dataclasses import dataclass

from dragoman.pipelines.corpus.phrasebook.inflection import Case


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun; "you" is always the polite Sie, which takes the plural."""

    english: str
    english_object: str
    german: dict[Case, str]
    possessive: tuple[str, str]
    person: int
    plural: bool
    gender: str


PRONOUNS = (
    Pronoun("I", "me", {"nom": "ich", "acc": "mich", "dat": "mir"}, ("my", "mein"), 1, False, "n"),
    Pronoun("he", "him", {"nom": "er", "acc": "ihn", "dat": "ihm"}, ("his", "sein"), 3, False, "m"),
    Pronoun("she", "her", {"nom": "sie", "acc": "sie", "dat": "ihr"}, ("her", "ihr"), 3, False, "f"),
    Pronoun("we", "us", {"nom": "wir", "acc": "uns", "dat": "uns"}, ("our", "unser"), 1, True, "n"),
    Pronoun("they", "them", {"nom": "sie", "acc": "sie", "dat": "ihnen"}, ("their", "ihr"), 3, True, "n"),
    Pronoun("you", "you", {"nom": "Sie", "acc": "Sie", "dat": "Ihnen"}, ("your", "Ihr"), 3, True, "n"),
)
THING_PRONOUN = {"m": "er", "f": "sie", "n": "es"}  # "it" takes the gender of the noun it stands for

UNITS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
UNITS |= {11: "eleven", 12: "twelve"}
TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety"}
GERMAN_UNITS = ["ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
GERMAN_TENS = {20: "zwanzig", 30: "dreißig", 40: "vierzig", 50: "fünfzig", 60: "sechzig", 70: "siebzig"}
GERMAN_TENS |= {80: "achtzig", 90: "neunzig"}


def numeral(number: int) -> tuple[str, str]:
    """A number from 2 to 12 or from 20 to 99 in words: twenty-three, dreiundzwanzig."""
    if number <= 12:
        return UNITS[number], GERMAN_UNITS[number - 1]
    unit = number % 10
    ten = number - unit
    if unit == 0:
        return TENS[ten], GERMAN_TENS[ten]
    return f"{TENS[ten]}-{UNITS.get(unit, 'one')}", f"{GERMAN_UNITS[unit - 1]}und{GERMAN_TENS[ten]}"


NUMBERS = tuple(range(2, 13))
LARGE_NUMBERS = tuple(range(20, 100))

MANNERS = {
    "quick": ("quickly", "schnell"),
    "slow": ("slowly", "langsam"),
    "soft": ("quietly", "leise"),
    "loud": ("loudly", "laut"),
    "careful": ("carefully", "vorsichtig"),
    "polite": ("politely", "höflich"),
    "early": ("early", "früh"),
}
FREQUENCIES = (
    ("often", "oft"),
    ("always", "immer"),
    ("never", "nie"),
    ("sometimes", "manchmal"),
    ("usually", "meistens"),
)
RECENT = (("already", "schon"), ("just", "gerade"), ("never", "nie"), ("finally", "endlich"))

WEEKDAYS = (
    ("Monday", "Montag"),
    ("Tuesday", "Dienstag"),
    ("Wednesday", "Mittwoch"),
    ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"),
    ("Sunday", "Sonntag"),
)
HABITS = (
    ("every day", "jeden Tag"),
    ("every week", "jede Woche"),
    ("every morning", "jeden Morgen"),
    ("every evening", "jeden Abend"),
    ("every year", "jedes Jahr"),
    ("in the morning", "am Morgen"),
    ("in the evening", "am Abend"),
    ("in the afternoon", "am Nachmittag"),
    ("at night", "in der Nacht"),
    ("on the weekend", "am Wochenende"),
    ("in summer", "im Sommer"),
    ("in winter", "im Winter"),
)
NOWADAYS = (("today", "heute"), ("now", "jetzt"))
SPOTS = (
    ("here", "hier"),
    ("there", "dort"),
    ("outside", "draußen"),
    ("upstairs", "oben"),
    ("at home", "zu Hause"),
)
PAST_TIMES = (
    ("yesterday", "gestern"),
    ("last week", "letzte Woche"),
    ("last year", "letztes Jahr"),
    ("last month", "letzten Monat"),
    ("last night", "letzte Nacht"),
)
FUTURE_TIMES = (
    ("tomorrow", "morgen"),
    ("soon", "bald"),
    ("next week", "nächste Woche"),
    ("next year", "nächstes Jahr"),
    ("next month", "nächsten Monat"),
    ("later", "später"),
)
SPANS = (("days", "Tagen"), ("weeks", "Wochen"), ("months", "Monaten"), ("years", "Jahren"), ("hours", "Stunden"))

# Verb-final clauses; the tenses in which each sounds right stand beside it.
SUBORDINATORS = {
    "because": ("weil", "any"),
    "although": ("obwohl", "any"),
    "if": ("wenn", "present"),
    "when": ("als", "past"),
    "while": ("während", "same"),
    "before": ("bevor", "same"),
    "until": ("bis", "same"),
}


@dataclass(frozen=True, slots=True)
class Modal:
    """A modal verb. `support` marks those that ask and deny with "do" (want to); the others invert (can, must)."""

    english: str
    english_third: str
    english_past: str
    support: bool
    german: tuple[str, str]  # singular, plural
    german_past: tuple[str, str]
    uses: frozenset[str]  # affirm, deny, ask, past


def modal(english: str, third: str, past: str, support: bool, german: str, german_past: str, uses: str) -> Modal:
    singular, plural = german.split()
    past_singular, past_plural = german_past.split() if german_past else ("", "")
    return Modal(
        english, third, past, support, (singular, plural), (past_singular, past_plural), frozenset(uses.split())
    )


MODALS = (  # each English modal has one German one for each use: "must not" forbids, "does not have to" spares
    modal("can", "can", "", False, "kann können", "", "affirm deny ask"),
    modal("must", "must", "", False, "muss müssen", "", "affirm ask"),
    modal("must", "must", "", False, "darf dürfen", "", "deny"),
    modal("may", "may", "", False, "darf dürfen", "", "affirm ask"),
    modal("should", "should", "", False, "sollte sollten", "", "affirm deny ask"),
    modal("want to", "wants to", "wanted to", True, "will wollen", "wollte wollten", "affirm deny ask past"),
    modal("have to", "has to", "had to", True, "muss müssen", "musste mussten", "deny past"),
    modal("would like to", "would like to", "", False, "möchte möchten", "", "affirm ask"),
)
