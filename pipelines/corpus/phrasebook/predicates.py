"""From a choice of verb to a clause: subject and objects of fitting features, tense, negation, adverbials."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from dragoman.pipelines.corpus.phrasebook.adverbials import (
    direction_phrase,
    manner_phrase,
    place_phrase,
    position_phrase,
    time_phrase,
)
from dragoman.pipelines.corpus.phrasebook.clauses import Clause
from dragoman.pipelines.corpus.phrasebook.draft import Draft, nouns_with
from dragoman.pipelines.corpus.phrasebook.function_words import FREQUENCIES, PRONOUNS, RECENT
from dragoman.pipelines.corpus.phrasebook.inflection import Case
from dragoman.pipelines.corpus.phrasebook.noun_phrases import (
    PERSON,
    joined,
    name_phrase,
    noun_phrase,
    pronoun_phrase,
    with_preposition,
)
from dragoman.pipelines.corpus.phrasebook.verb_groups import Tense
from dragoman.pipelines.corpus.phrasebook.verb_table import FRAMES, Verb
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, fixed

FRAME_WEIGHTS = (
    ("intransitive", 15),
    ("transitive", 42),
    ("dative", 8),
    ("ditransitive", 9),
    ("prepositional", 9),
    ("motion", 10),
    ("position", 7),
    ("placement", 6),
)
STATES = frozenset({"have", "know", "need", "love", "hate", "understand", "belong to"})  # simple tenses only
Attach = Callable[[Phrase], None]


@dataclass(slots=True)
class Wish:
    """What the sentence around a clause allows."""

    time: str = "any"  # present, past or any
    negatable: bool = True
    adverbials: float = 1.0  # factor on their probabilities
    trailing_time: bool = True
    specific: bool = False  # definite subjects only
    finite: bool = True  # no infinitive clause
    tense: Tense | None = None
    modal_use: str = "affirm"  # deny, ask


@cache
def verbs_for(frame: str, features: frozenset[str]) -> tuple[Verb, ...]:
    """The verbs of a frame that accept a subject of these features."""
    return tuple(verb for verb in FRAMES[frame] if verb.subjects & features)


@cache
def frames_for(features: frozenset[str]) -> tuple[str, ...]:
    """The frames that a subject of these features can have, repeated by weight."""
    return tuple(frame for frame, weight in FRAME_WEIGHTS if verbs_for(frame, features) for _ in range(weight))


ALL_FRAMES = tuple(frame for frame, weight in FRAME_WEIGHTS for _ in range(weight))


def choose_verb(draft: Draft, subject: Phrase | None) -> Verb | None:
    """A verb that the subject can have; None if there is no such verb."""
    if subject is None:
        return draft.pick(FRAMES[draft.pick(ALL_FRAMES)])
    frames = frames_for(subject.features)
    return draft.pick(verbs_for(draft.pick(frames), subject.features)) if frames else None


def subject_phrase(draft: Draft, features: frozenset[str], specific: bool = False) -> Phrase:
    """A subject that has one of the features: pronoun, name, noun, or two of them joined."""
    roll = draft.rng.random()
    if "person" in features or "adult" in features:
        if roll < 0.24:
            return pronoun_phrase(draft.pick(PRONOUNS), "nom")
        if roll < 0.36:
            return name_phrase(draft)
        if roll < 0.41:
            first, second = name_phrase(draft), name_phrase(draft)
            if first.key != second.key:
                return joined(first, second)
        if roll < 0.44:
            people = nouns_with(PERSON)
            first, second = (
                noun_phrase(draft, draft.pick(people), "nom", specific=True, plural=False, bare=True) for _ in range(2)
            )
            return joined(first, second)
    return noun_phrase(draft, draft.pick(nouns_with(features)), "nom", specific=specific)


def person_object(draft: Draft, clause: Clause, case: Case, features: frozenset[str], specific: bool) -> Phrase:
    """An object that may be a person: sometimes a pronoun or a name; never the subject over again."""
    roll = draft.rng.random()
    if features & PERSON:
        subject = clause.subject
        if roll < 0.2:
            pronoun = draft.pick(PRONOUNS)
            again = subject.pronoun and (
                pronoun.person == subject.person == 1 or (pronoun.english == "you" and subject.german[0].text == "Sie")
            )
            if not again:
                return pronoun_phrase(pronoun, case)
        elif roll < 0.3:
            name = name_phrase(draft)
            if name.key != subject.key and not subject.plural:
                return name
    return noun_phrase(draft, draft.pick(nouns_with(features)), case, specific=specific)


def unclear(verb: Verb, subject: Phrase) -> bool:
    """Whether the English past would look like the present: "they put"."""
    return verb.english.same_past and (subject.plural or subject.person == 1)


def choose_tense(draft: Draft, wish: Wish, verb: Verb, subject: Phrase) -> Tense:
    """A tense within what is wished. put and read take the past only where the English form shows it."""
    if wish.tense is not None and (wish.tense != "past" or not unclear(verb, subject)):
        return wish.tense
    roll = draft.rng.random()
    past = wish.time == "past" or wish.tense == "past" or (wish.time == "any" and roll < 0.3)
    if past:
        if unclear(verb, subject):
            return "modal past"
        return (
            "modal past" if draft.chance(0.14) and "animate" in subject.features and verb.key not in STATES else "past"
        )
    roll = draft.rng.random()
    if roll < 0.46 or verb.key in STATES:
        return "present"
    if roll < 0.66:
        return "perfect"
    if roll < 0.88 and "person" in subject.features:
        return "modal"
    return "future"


def fill(draft: Draft, clause: Clause, attach: Attach) -> None:
    """Objects and complements that the verb asks for, unless they are there already.

    `attach` may add a relative clause to the object that ends the English clause.
    """
    verb = clause.verb
    last = verb.frame in ("transitive", "dative", "prepositional") or verb.targets == ("dat",)
    denied = clause.negation is not None
    if verb.frame in ("transitive", "ditransitive", "placement") and clause.accusative is None:
        clause.accusative = accusative_phrase(draft, clause, denied)
        if last:
            attach(clause.accusative)
    if verb.frame == "dative" and clause.dative is None:
        clause.dative = person_object(draft, clause, "dat", verb.objects, denied)
        attach(clause.dative)
    if verb.frame == "ditransitive" and clause.dative is None:
        dative = person_object(draft, clause, "dat", PERSON, True)
        clause.dative = with_to(dative) if verb.targets == ("to",) else dative
    if verb.frame == "prepositional" and clause.prepositional is None:
        phrase = person_object(draft, clause, verb.case, verb.objects, denied)
        attach(phrase)
        clause.prepositional = with_preposition(verb.english_preposition, verb.german_preposition, phrase)
    if clause.predicate is None:
        if verb.frame == "motion":
            clause.predicate = direction_phrase(draft, verb.targets)
        elif verb.frame == "placement":
            clause.predicate = position_phrase(draft, verb.targets, True, clause.accusative or clause.subject)
        elif verb.frame == "position":
            if verb.key in ("live", "stay"):
                clause.predicate = place_phrase(draft, frozenset(verb.targets))
            else:
                clause.predicate = position_phrase(draft, verb.targets, False, clause.subject)


def accusative_phrase(draft: Draft, clause: Clause, denied: bool) -> Phrase:
    """The direct object; of a denied clause definite, or indefinite with kein."""
    verb = clause.verb
    if denied and (verb.key == "have" or draft.chance(0.45)) and not verb.objects & PERSON:
        clause.kein = True
        noun = draft.pick(nouns_with(verb.objects))
        return noun_phrase(draft, noun, "acc", determiner="a", negation=clause.negation)
    if verb.key == "have":
        determiner = draft.pick(("a", "a", "a", "many", "some", "number"))
        noun = draft.pick(nouns_with(verb.objects))
        return noun_phrase(draft, noun, "acc", determiner=determiner, plural=determiner != "a")
    if verb.key == "count":
        noun = draft.pick([noun for noun in nouns_with(verb.objects) if noun.plural])
        return noun_phrase(draft, noun, "acc", determiner=draft.pick(("the", "possessive", "this")), plural=True)
    return person_object(draft, clause, "acc", verb.objects, denied)


def with_to(phrase: Phrase) -> Phrase:
    """The English "to" of the second object, linked to the first German word."""
    to = Word("to")
    first, *rest = phrase.german
    phrase.english = [to, *phrase.english]
    phrase.german = [Word(first.text, (to, *first.links)), *rest]
    return phrase


def adorn(draft: Draft, clause: Clause, wish: Wish) -> None:
    """Adverbials, as far as nothing that they could be taken to belong to ends the objects."""
    verb = clause.verb
    heavy = clause.ends_in_clause
    weight = wish.adverbials
    if wish.trailing_time and clause.time is None and not heavy and draft.chance(0.33 * weight):
        clause.time = time_phrase(draft, clause.tense, clause.negation is not None)
    if heavy or clause.passive:
        return
    if verb.manners and clause.manner is None and not clause.kein and draft.chance(0.26 * weight):
        clause.manner = manner_phrase(draft, verb.manners)
    if verb.places and clause.place is None and draft.chance(0.42 * weight):
        clause.place = place_phrase(draft, verb.places)
    if wish.finite and clause.time is None and clause.negation is None and draft.chance(0.12 * weight):
        if clause.tense == "perfect":
            clause.frequency = fixed(*draft.pick(RECENT))
        elif clause.tense in ("present", "past") and verb.key not in STATES:
            clause.frequency = fixed(*draft.pick(FREQUENCIES))


def record(draft: Draft, clause: Clause) -> None:
    """Note who does what to whom, for the held-out combinations."""
    verb = clause.verb.key
    draft.combine("subject", clause.subject.key, verb)
    for slot in (clause.accusative, clause.dative, clause.prepositional, clause.predicate):
        if slot is not None:
            draft.combine("object", verb, slot.key)
    if clause.place is not None:
        draft.combine("place", verb, clause.place.key)
