"""Whole clauses: a verb with all that belongs to it, relative clauses on its nouns, passives."""

from functools import cache

from dragoman.pipelines.corpus.phrasebook.adverbials import place_phrase, time_phrase
from dragoman.pipelines.corpus.phrasebook.clauses import Clause, english_clause, german_final
from dragoman.pipelines.corpus.phrasebook.copulas import copula_clause, price_clause, weather_clause
from dragoman.pipelines.corpus.phrasebook.draft import Draft, nouns_with
from dragoman.pipelines.corpus.phrasebook.function_words import MODALS
from dragoman.pipelines.corpus.phrasebook.inflection import Case, relative
from dragoman.pipelines.corpus.phrasebook.inflection import noun as decline
from dragoman.pipelines.corpus.phrasebook.noun_phrases import PERSON, noun_phrase, with_preposition
from dragoman.pipelines.corpus.phrasebook.predicates import (
    Wish,
    adorn,
    choose_tense,
    choose_verb,
    fill,
    record,
    subject_phrase,
)
from dragoman.pipelines.corpus.phrasebook.verb_table import FRAMES, Verb
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word

PASSIVE_VERBS = """
buy sell order read write eat drink cook bake peel wash clean repair open close find forget visit invite translate
describe solve discover paint draw build break steal feed photograph prepare sing repeat count
"""
OWNED = frozenset({"pet", "kin"})


@cache
def passive_verbs() -> tuple[Verb, ...]:
    """The transitive verbs whose passive sounds natural."""
    return tuple(verb for verb in FRAMES["transitive"] if verb.key in PASSIVE_VERBS.split())


@cache
def verbs_taking(frame: str, features: frozenset[str]) -> tuple[Verb, ...]:
    """The verbs of a frame that a person can have with an object of these features."""
    return tuple(verb for verb in FRAMES[frame] if verb.objects & features and "person" in verb.subjects)


def make_clause(
    draft: Draft,
    wish: Wish,
    *,
    subject: Phrase | None = None,
    verb: Verb | None = None,
    gap: Phrase | None = None,
    opened: tuple[str, Phrase] | None = None,
    depth: int = 1,
) -> Clause | None:
    """A clause of a full verb; None if the subject can have none.

    `gap` is an object already given, `opened` another slot and what stands in it; relative clauses are added while
    `depth` is positive.
    """
    verb = verb or choose_verb(draft, subject)
    if verb is None:
        return None
    subject = subject or subject_phrase(draft, verb.subjects, wish.specific)
    if depth > 0 and not subject.tail and draft.chance(0.07):
        attach_relative(draft, subject, wish, 0)
    clause = Clause(subject, verb, tense=choose_tense(draft, wish, verb, subject))
    if gap is not None:
        place_gap(clause, gap)
    if opened is not None:
        setattr(clause, *opened)
    negate = wish.negatable and subject.plain and draft.chance(0.16)
    if clause.tense in ("modal", "modal past"):
        use = "past" if clause.tense == "modal past" else "deny" if negate else wish.modal_use
        clause.modal = draft.pick([modal for modal in MODALS if use in modal.uses])
    if negate:
        clause.negation = Word("not")

    def attach(phrase: Phrase) -> None:
        if depth > 0 and not phrase.pronoun and not clause.kein and draft.chance(0.13):
            attach_relative(draft, phrase, wish, depth - 1)

    fill(draft, clause, attach)
    adorn(draft, clause, wish)
    record(draft, clause)
    return clause


def place_gap(clause: Clause, gap: Phrase) -> None:
    frame = clause.verb.frame
    if frame == "dative":
        clause.dative = gap
    elif frame == "prepositional":
        clause.prepositional = gap
    else:
        clause.accusative = gap


def relative_phrase(head: Phrase, case: Case, english: str) -> Phrase:
    """A relative pronoun that agrees with its head."""
    word = Word(english)
    form = "p" if head.plural else head.gender
    return Phrase(
        [word],
        [Word(relative(case, form), (word,))],
        plural=head.plural,
        gender=head.gender,
        features=head.features,
    )


def attach_relative(draft: Draft, head: Phrase, wish: Wish, depth: int) -> None:
    """Give the head a relative clause: inline in English, as the tail in German. Heads without a noun take none."""
    if not head.key or head.pronoun or head.tail or len(head.english) < 2 or "'s" in [w.text for w in head.english]:
        return
    inner = Wish(time=wish.time, negatable=True, adverbials=0.55, specific=True)
    found = relative_clause(draft, head, inner, depth)
    if found is None:
        return
    opener, clause = found
    group = clause.group()
    head.english = [*head.english, *english_clause(clause, group, fronted=opener)]
    head.tail = [Word(","), *german_final(clause, group, fronted=opener)]


def relative_clause(draft: Draft, head: Phrase, wish: Wish, depth: int) -> tuple[Phrase, Clause] | None:
    """The relative pronoun and its clause: subject, object, place or possessor."""
    roll = draft.rng.random()
    person = "person" in head.features
    if "place" in head.features and roll < 0.5:
        return None
    if person and roll < 0.1:
        return whose_clause(draft, head, wish)
    if "animate" in head.features and roll < 0.5:
        opener = relative_phrase(head, "nom", "who" if person else "that")
        clause = (
            copula_clause(draft, wish, opener) if roll < 0.18 else make_clause(draft, wish, subject=opener, depth=depth)
        )
    elif person and roll < 0.62:
        opener, clause = prepositional_relative(draft, head, wish, depth)
    else:
        frame = "dative" if person and roll > 0.86 else "transitive"
        verbs = verbs_taking(frame, head.features)
        if not verbs:
            return None
        verb = draft.pick(verbs)
        opener = relative_phrase(head, verb.case, "whom" if person else "that")
        draft.combine("object", verb.key, head.key)
        clause = make_clause(draft, wish, verb=verb, gap=opener, depth=0)
    return None if clause is None else (opener, clause)


def prepositional_relative(draft: Draft, head: Phrase, wish: Wish, depth: int) -> tuple[Phrase, Clause | None]:
    """the man for whom she waits: der Mann, auf den sie wartet."""
    verb = draft.pick([verb for verb in verbs_taking("prepositional", PERSON) if verb.english_preposition])
    draft.combine("object", verb.key, head.key)
    pronoun = relative_phrase(head, verb.case, "whom")
    opener = with_preposition(verb.english_preposition, verb.german_preposition, pronoun)
    return opener, make_clause(draft, wish, verb=verb, gap=opener, depth=depth)


def whose_clause(draft: Draft, head: Phrase, wish: Wish) -> tuple[Phrase, Clause] | None:
    """the woman whose dog sleeps: die Frau, deren Hund schläft."""
    noun = draft.pick(nouns_with(OWNED))
    whose, owned = Word("whose"), Word(noun.english)
    form = "p" if head.plural else head.gender
    german = decline(noun.german, noun.genitive, noun.plural, noun.gender, "nom", False)
    opener = Phrase(
        [whose, owned],
        [Word(relative("gen", form), (whose,)), Word(german, (owned,))],
        gender=noun.gender,
        key=noun.english,
        features=noun.features,
    )
    clause = (
        copula_clause(draft, wish, opener) if draft.chance(0.4) else make_clause(draft, wish, subject=opener, depth=0)
    )
    return None if clause is None else (opener, clause)


def passive_clause(draft: Draft, wish: Wish) -> Clause:
    """The house was built by the farmer: Das Haus wurde vom Bauern gebaut."""
    verb = draft.pick(passive_verbs())
    subject = noun_phrase(draft, draft.pick(nouns_with(verb.objects)), "nom", specific=True)
    clause = Clause(subject, verb, passive=True, tense=choose_tense(draft, wish, verb, subject))
    if clause.tense in ("modal", "modal past"):
        clause.tense = "modal"
        clause.modal = draft.pick(
            [modal for modal in MODALS if modal.german[0] in ("muss", "kann") and "affirm" in modal.uses]
        )
        if wish.time == "past":
            clause.tense, clause.modal = "past", None
    if draft.chance(0.55):
        person = noun_phrase(draft, draft.pick(nouns_with(PERSON)), "dat", specific=True)
        clause.agent = with_preposition("by", "von", person)
        draft.combine("agent", verb.key, person.key)
    elif verb.places and draft.chance(0.4):
        clause.place = place_phrase(draft, verb.places)
    elif wish.negatable and draft.chance(0.25) and clause.modal is None:
        clause.negation = Word("not")
    if wish.trailing_time and draft.chance(0.35):
        clause.time = time_phrase(draft, clause.tense, clause.negation is not None)
    draft.combine("object", verb.key, subject.key)
    return clause


def any_clause(
    draft: Draft, wish: Wish, subject: Phrase | None = None, depth: int = 1, *, action: bool = False
) -> Clause:
    """A clause of any kind, with `action` of full verbs only; what does not fit a given subject is drawn again."""
    while True:
        roll = draft.rng.random()
        clause: Clause | None
        if roll < 0.15 and not action:
            clause = copula_clause(draft, wish, subject)
        elif subject is None and roll < 0.2:
            clause = passive_clause(draft, wish)
        elif subject is None and roll < 0.22 and not action:
            clause = price_clause(draft, wish)
        elif subject is None and roll < 0.235 and not action:
            clause = weather_clause(draft, wish)
        else:
            clause = make_clause(draft, wish, subject=subject, depth=depth)
        if clause is not None:
            return clause
