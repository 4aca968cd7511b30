"""Adverbials: time by tense, place, direction, position, manner, company."""

from dataclasses import replace

from dragoman.pipelines.corpus.phrasebook.draft import Draft, nouns_with, places_with
from dragoman.pipelines.corpus.phrasebook.function_words import (
    FUTURE_TIMES,
    HABITS,
    MANNERS,
    NOWADAYS,
    NUMBERS,
    PAST_TIMES,
    SPANS,
    SPOTS,
    WEEKDAYS,
    numeral,
)
from dragoman.pipelines.corpus.phrasebook.inflection import Case
from dragoman.pipelines.corpus.phrasebook.noun_phrases import PERSON, name_phrase, noun_phrase, with_preposition
from dragoman.pipelines.corpus.phrasebook.nouns import Noun
from dragoman.pipelines.corpus.phrasebook.places import SWITZERLAND, TOWNS, Place
from dragoman.pipelines.corpus.phrasebook.verb_groups import Tense
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, fixed

TWO_WAY = frozenset({"an", "auf", "in", "hinter", "neben", "unter", "vor"})
POSITIONS = {  # preposition of both languages, features of what it goes with
    "on": ("on", "auf", frozenset({"top"})),
    "beside": ("beside", "neben", frozenset({"furniture", "openable"})),
    "behind": ("behind", "hinter", frozenset({"furniture", "openable"})),
    "under": ("under", "unter", frozenset({"top"})),
    "in": ("in", "in", frozenset({"inside"})),
    "wall": ("on", "an", frozenset({"wall"})),
    "seat": ("on", "auf", frozenset({"seat"})),
}
SPOT = frozenset({"spot"})  # of the place adverbs, which stand before an indefinite object
RIDES = frozenset({"bus", "train", "car", "ship", "bicycle"})


def clock(draft: Draft) -> Phrase:
    """at eight o'clock: um acht Uhr."""
    english, german = numeral(draft.pick(NUMBERS))
    return fixed(f"at {english} o'clock", f"um {german} Uhr")


def weekday(draft: Draft) -> Phrase:
    english, german = draft.pick(WEEKDAYS)
    return fixed(f"on {english}", f"am {german}")


def span(draft: Draft, ago: bool) -> Phrase:
    """two days ago: vor zwei Tagen; in three weeks: in drei Wochen."""
    english, german = numeral(draft.pick(NUMBERS))
    units, einheiten = draft.pick(SPANS)
    if not ago:
        return fixed(f"in {english} {units}", f"in {german} {einheiten}")
    number, unit, past = Word(english), Word(units), Word("ago")
    return Phrase([number, unit, past], [Word("vor", (past,)), Word(german, (number,)), Word(einheiten, (unit,))])


def time_phrase(draft: Draft, tense: Tense, denied: bool = False) -> Phrase | None:
    """A time that the tense allows; None where it wants none, nor "every day" in a denied clause."""
    time = any_time(draft, tense)
    return None if denied and time is not None and time.english[0].text == "every" else time


def any_time(draft: Draft, tense: Tense) -> Phrase | None:
    roll = draft.rng.random()
    if tense == "perfect":
        return fixed("today", "heute") if roll < 0.3 else None
    if roll < 0.12:
        return weekday(draft)
    if roll < 0.22:
        return clock(draft)
    if tense in ("past", "modal past"):
        if roll < 0.4:
            return span(draft, True)
        return fixed(*draft.pick(PAST_TIMES if roll < 0.85 else HABITS))
    if tense == "future":
        if roll < 0.4:
            return span(draft, False)
        day = fixed(*draft.pick(FUTURE_TIMES))
        if roll > 0.92 and day.english[0].text == "tomorrow":
            hour = clock(draft)
            return Phrase([*day.english, *hour.english], [*day.german, *hour.german])
        return day
    if tense == "modal":
        return fixed(*draft.pick(FUTURE_TIMES if roll < 0.6 else NOWADAYS))
    return fixed(*draft.pick(HABITS if roll < 0.75 else NOWADAYS))


def town_phrase(draft: Draft, direction: bool) -> Phrase:
    """in Berlin, nach Berlin; in der Schweiz, in die Schweiz."""
    preposition = Word("to" if direction else "in")
    if draft.chance(0.08):
        name = Word(SWITZERLAND[0])
        article, land = SWITZERLAND[1].split()
        article = article if direction else "der"
        return Phrase([preposition, name], [Word("in", (preposition,)), Word(article, (name,)), Word(land, (name,))])
    english, german = draft.pick(TOWNS)
    name = Word(english)
    words = [Word("nach" if direction else "in", (preposition,)), Word(german, (name,))]
    return Phrase([preposition, name], words, key=english)


def place_noun(draft: Draft, noun: Noun, german: str, direction: bool) -> Phrase:
    """The noun phrase of a place in the case its preposition asks for; mostly definite."""
    determiner = "the" if draft.chance(0.72) else draft.pick(("a", "a", "possessive", "this"))
    plural = determiner == "the" and bool(noun.plural) and draft.chance(0.06)
    case: Case = "acc" if direction and german in TWO_WAY else "dat"
    return noun_phrase(draft, noun, case, determiner=determiner, plural=plural)


def at_place(draft: Draft, place: Place, direction: bool) -> Phrase:
    """A place as position or goal, with the prepositions of its row."""
    english, german = place.whither if direction else place.where
    return with_preposition(english, german, place_noun(draft, place.noun, german, direction))


def place_phrase(draft: Draft, features: frozenset[str]) -> Phrase:
    """Where something happens: a noun, a town, or an adverb such as here."""
    roll = draft.rng.random()
    if roll < 0.1 and "shop" not in features and "water" not in features and "stop" not in features:
        return replace(fixed(*draft.pick(SPOTS)), features=SPOT)
    if roll < 0.25 and "town" in features:
        return town_phrase(draft, False)
    return at_place(draft, draft.pick(places_with(features)), False)


def direction_phrase(draft: Draft, targets: tuple[str, ...]) -> Phrase:
    """Where somebody goes: near targets are places, far ones also towns and countries."""
    if "far" in targets and (len(targets) == 1 or draft.chance(0.4)):
        return town_phrase(draft, True)
    if draft.chance(0.07):
        return Phrase(*_home())
    return at_place(draft, draft.pick(places_with(frozenset({"outside", "inner", "stop", "town", "home"}))), True)


def _home() -> tuple[list[Word], list[Word]]:
    home = Word("home")
    return [home], [Word("nach", (home,)), Word("Hause", (home,))]


def position_phrase(draft: Draft, targets: tuple[str, ...], direction: bool, mover: Phrase) -> Phrase:
    """On, under, beside something else: dative for a position, accusative for a direction. Furniture stands on none."""
    target = draft.pick(targets)
    if target == "on" and "furniture" in mover.features:
        target = "beside"
    english, german, features = POSITIONS[target]
    noun = draft.pick([noun for noun in nouns_with(features) if noun.english != mover.key])
    return with_preposition(english, german, place_noun(draft, noun, german, direction))


def manner_phrase(draft: Draft, manners: tuple[str, ...]) -> Phrase:
    """An adverb of manner, company (with the friend) or vehicle (by train)."""
    manner = draft.pick(manners)
    if manner == "with":
        companion = (
            name_phrase(draft)
            if draft.chance(0.25)
            else noun_phrase(draft, draft.pick(nouns_with(PERSON)), "dat", specific=True, bare=True)
        )
        return with_preposition("with", "mit", companion)
    if manner == "ride":
        noun = draft.pick([noun for noun in nouns_with(frozenset({"vehicle"})) if noun.english in RIDES])
        by, ride = Word("by"), Word(noun.english)
        article = "der" if noun.gender == "f" else "dem"
        return Phrase([by, ride], [Word("mit", (by,)), Word(article, (ride,)), Word(noun.german, (ride,))])
    return fixed(*MANNERS[manner])
