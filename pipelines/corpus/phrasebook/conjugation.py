"""The forms of verbs: German person, past, participle, zu-infinitive; English third person, past, -ing."""

import re
from dataclasses import dataclass
from functools import cache

INSEPARABLE = re.compile(r"(be|emp|ent|er|ge|miss|ver|zer)(?=\w{4})")
FIRST = {"sein": "bin", "wissen": "weiß", "werden": "werde", "haben": "habe", "mögen": "mag"}
VOWELS = "aeiou"
DOUBLED = {"plan", "stop"}  # of our verbs that end consonant-vowel-consonant, the stressed ones


@dataclass(frozen=True, slots=True)
class GermanVerb:
    """Principal parts; `particle` is empty unless the verb is separable."""

    particle: str
    infinitive: str  # without the particle
    third: str
    past: str
    participle: str  # with the particle
    with_sein: bool
    reflexive: bool

    def present(self, person: int, plural: bool) -> str:
        """The finite form without particle. Persons in use: ich, er, wir, sie, Sie (a plural)."""
        if plural:
            return "sind" if self.infinitive == "sein" else self.infinitive
        return first_person(self.infinitive) if person == 1 else self.third

    def preterite(self, person: int, plural: bool) -> str:
        """The finite past form; first and third person agree."""
        if not plural:
            return self.past
        return self.past + ("n" if self.past.endswith("e") else "en")

    @property
    def joined(self) -> str:
        """The whole infinitive: aufräumen."""
        return self.particle + self.infinitive

    @property
    def with_zu(self) -> list[str]:
        """zu öffnen, aufzuräumen."""
        return [self.particle + "zu" + self.infinitive] if self.particle else ["zu", self.infinitive]


@cache
def first_person(infinitive: str) -> str:
    """kaufen: kaufe; lächeln: lächle; füttern: füttere."""
    if infinitive in FIRST:
        return FIRST[infinitive]
    if infinitive.endswith("eln"):
        return infinitive[:-3] + "le"
    return infinitive.removesuffix("n") if infinitive.endswith("en") else infinitive.removesuffix("n") + "e"


def weak_stem(infinitive: str) -> str:
    """The stem with the linking e after d, t and consonant + m, n: arbeite-, öffne-, but kauf-, lächel-, lern-."""
    stem = infinitive.removesuffix("n")
    if stem.endswith("e"):
        stem = stem[:-1]
        if re.search(r"([dt]|[bcdfgkpstz][mn]|ch[mn])$", stem):
            return stem + "e"
    return stem


def read_german(text: str) -> GermanVerb:
    """A German column of the verb tables."""
    parts = text.split()
    reflexive = parts[0] == "sich"
    if reflexive:
        parts = parts[1:]
    with_sein = parts[0].startswith("+")
    particle, _, infinitive = parts[0].lstrip("+").rpartition("|")
    if len(parts) == 4:
        third, past, bare = parts[1:]
    elif len(parts) == 1:
        stem = weak_stem(infinitive)
        third, past = stem + "t", stem + "te"
        prefixed = infinitive.endswith("ieren") or INSEPARABLE.match(infinitive) is not None
        bare = third if prefixed else "ge" + third
    else:
        raise ValueError(f"verb table: {text!r} needs an infinitive alone or with three further forms")
    return GermanVerb(particle, infinitive, third, past, particle + bare, with_sein, reflexive)


@dataclass(frozen=True, slots=True)
class EnglishVerb:
    """English forms; a verb of several words inflects its first."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str
    particle: str  # moves behind a pronoun object: "picks him up"

    @property
    def same_past(self) -> bool:
        """put, read: plural and first person do not tell past from present."""
        return self.base == self.past


def third_person(word: str) -> str:
    special = {"be": "is", "have": "has", "go": "goes"}
    if word in special:
        return special[word]
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "sh", "ch", "x", "z")) else "s")


def regular_past(word: str) -> str:
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ied"
    return (word + word[-1] if word in DOUBLED else word) + "ed"


def ing_form(word: str) -> str:
    doubled = {"get", "put", "sit", "run", "begin", "swim", "forget"} | DOUBLED
    if word == "lie":
        return "lying"
    if word.endswith("e") and word not in {"be", "see"}:
        return word[:-1] + "ing"
    return (word + word[-1] if word in doubled else word) + "ing"


def read_english(text: str) -> EnglishVerb:
    """An English column of the verb tables."""
    base, *irregular = text.split()
    particle = base.partition("~")[2]
    base = base.replace("~", "_")
    first, *rest = base.split("_")

    def whole(form: str) -> str:
        return " ".join([form, *rest])

    regular = regular_past(first)
    past, participle = (form.replace("_", " ") for form in irregular) if irregular else (whole(regular),) * 2
    return EnglishVerb(
        base.replace("_", " "), whole(third_person(first)), past, participle, whole(ing_form(first)), particle
    )
