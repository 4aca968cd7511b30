"""The verb tables read into frames: forms of both languages, what may be subject and object, what may be added."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.pipelines.corpus.phrasebook import verbs
from dragoman.pipelines.corpus.phrasebook.conjugation import EnglishVerb, GermanVerb, read_english, read_german
from dragoman.pipelines.corpus.phrasebook.inflection import Case

COLUMN_END = re.compile(r"(?<=\s)\|(?=\s|$)")  # the bar of a separable verb has no space before it
MANNERS = frozenset({"quick", "slow", "soft", "loud", "careful", "polite", "early", "with", "ride"})
ANY_PLACE = ("home", "outside", "inner")
EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb in one frame."""

    frame: str
    english: EnglishVerb
    german: GermanVerb
    subjects: frozenset[str] = EMPTY
    objects: frozenset[str] = EMPTY
    targets: tuple[str, ...] = ()  # of motion, position, placement; "dat"/"to"; "that"/"whether"; "to"/"ing"
    places: frozenset[str] = EMPTY  # features of the places that may be added
    manners: tuple[str, ...] = ()
    english_preposition: str = ""
    german_preposition: str = ""
    case: Case = "acc"  # of the object, or of the object of the preposition

    @property
    def key(self) -> str:
        """What the held-out combinations call the verb."""
        return self.english.base


def cells(table: str) -> Iterator[list[str]]:
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in COLUMN_END.split(line)]


def settings(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """The places and the manners of a settings cell."""
    names = text.split()
    places = {name for name in names if name not in MANNERS}
    if "any" in places:
        places = set(ANY_PLACE)
    return frozenset(places), tuple(name for name in names if name in MANNERS)


def plain_frame(frame: str, table: str, case: Case = "acc") -> list[Verb]:
    """Tables of the columns English, German, subjects, objects, settings."""
    found = []
    for english, german, subjects, objects, added in cells(table):
        places, manners = settings(added)
        found.append(
            Verb(
                frame,
                read_english(english),
                read_german(german),
                frozenset(subjects.split()),
                frozenset(objects.split()),
                places=places,
                manners=manners,
                case=case,
            )
        )
    return found


def targeted_frame(frame: str, table: str) -> list[Verb]:
    """Tables of the columns English, German, subjects, [objects,] targets[, settings]."""
    found = []
    for english, german, subjects, *rest in cells(table):
        objects = rest.pop(0) if frame in ("ditransitive", "placement") else ""
        targets = rest.pop(0)
        found.append(
            Verb(
                frame,
                read_english(english),
                read_german(german),
                frozenset(subjects.split()),
                frozenset(objects.split()),
                targets=tuple(targets.split()),
                manners=settings(rest[0])[1] if rest else (),
            )
        )
    return found


def prepositional_frame(table: str) -> list[Verb]:
    """Table with the English preposition, the German one and its case before the features of the object."""
    found = []
    cases: dict[str, Case] = {"acc": "acc", "dat": "dat"}
    for english, german, subjects, government, added in cells(table):
        preposition, german_preposition, case, *objects = government.split()
        places, manners = settings(added)
        found.append(
            Verb(
                "prepositional",
                read_english(english),
                read_german(german),
                frozenset(subjects.split()),
                frozenset(objects),
                places=places,
                manners=manners,
                english_preposition="" if preposition == "-" else preposition,
                german_preposition=german_preposition,
                case=cases[case],
            )
        )
    return found


def read_frames() -> dict[str, tuple[Verb, ...]]:
    """The verbs by frame."""
    people = frozenset({"person"})
    clausal = [
        Verb("clausal", read_english(english), read_german(german), people, targets=(kind,))
        for english, german, kind in cells(verbs.CLAUSAL)
    ]
    control = [
        Verb("control", read_english(english), read_german(german), people, targets=(kind,))
        for english, german, kind in cells(verbs.CONTROL)
    ]
    return {
        "intransitive": tuple(plain_frame("intransitive", verbs.INTRANSITIVE)),
        "transitive": tuple(plain_frame("transitive", verbs.TRANSITIVE)),
        "dative": tuple(plain_frame("dative", verbs.DATIVE, "dat")),
        "ditransitive": tuple(targeted_frame("ditransitive", verbs.DITRANSITIVE)),
        "prepositional": tuple(prepositional_frame(verbs.PREPOSITIONAL)),
        "motion": tuple(targeted_frame("motion", verbs.MOTION)),
        "position": tuple(targeted_frame("position", verbs.POSITION)),
        "placement": tuple(targeted_frame("placement", verbs.PLACEMENT)),
        "clausal": tuple(clausal),
        "control": tuple(control),
    }


FRAMES = read_frames()
SPECIAL = {
    row[0].split()[0]: Verb("special", read_english(row[0]), read_german(row[1])) for row in cells(verbs.SPECIAL)
}
BE, BECOME, COST = (SPECIAL[name] for name in ("be", "become", "cost"))
