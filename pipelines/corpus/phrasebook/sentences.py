"""Whole sentences: statements, questions and imperatives, joined and nested, with punctuation and sentence case."""

from dataclasses import dataclass
from random import Random

from dragoman.pipelines.corpus.phrasebook.adverbials import at_place
from dragoman.pipelines.corpus.phrasebook.clauses import Clause, english_clause, german_main, imperative_clause
from dragoman.pipelines.corpus.phrasebook.complements import (
    KNOW,
    add_adverbial,
    add_purpose,
    add_verb_phrase,
    control_clause,
    echo,
    indirect_question,
    judgement_clause,
    reporting_clause,
    subordinate,
    time_of,
)
from dragoman.pipelines.corpus.phrasebook.draft import Draft, nouns_with, places_with
from dragoman.pipelines.corpus.phrasebook.function_words import PRONOUNS
from dragoman.pipelines.corpus.phrasebook.noun_phrases import noun_phrase, pronoun_phrase
from dragoman.pipelines.corpus.phrasebook.predicates import STATES, Wish
from dragoman.pipelines.corpus.phrasebook.questions import asked_clause
from dragoman.pipelines.corpus.phrasebook.statements import any_clause, make_clause
from dragoman.pipelines.corpus.phrasebook.verb_table import FRAMES, Verb
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, alignment_of, fixed, text_of, tidy

YOU = Phrase([], [Word("Sie")], plural=True, pronoun=True, features=frozenset({"person", "animate", "adult"}))
COMMANDS: tuple[Verb, ...] = tuple(
    verb
    for frame in ("transitive", "dative", "ditransitive", "prepositional", "placement", "motion", "intransitive")
    for verb in FRAMES[frame]
    if "person" in verb.subjects
    and verb.key not in STATES
    and verb.key not in {"see", "find", "lose", "forget", "break", "steal", "fall asleep", "dream", "arrive", "meet"}
)
COUNTING = frozenset({"home", "inner", "town", "outside"})
COUNTED = frozenset({"pet", "furniture", "fragile", "vehicle", "food", "person", "plant", "animal"})


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence pair. `alignment` is made on request: (English index, German index) over `tokens()`."""

    english: str
    german: str
    combinations: list[str]
    source: list[Word]
    target: list[Word]

    @property
    def alignment(self) -> list[tuple[int, int]]:
        return alignment_of(self.source, self.target)


def say(clause: Clause, fronted: Phrase | None = None) -> tuple[list[Word], list[Word]]:
    """A main clause, verb second."""
    group = clause.group()
    return english_clause(clause, group, fronted=fronted), german_main(clause, group, fronted=fronted)


def existence(draft: Draft) -> tuple[list[Word], list[Word], bool]:
    """There are three dogs in the park: Es gibt drei Hunde im Park."""
    noun = draft.pick(nouns_with(COUNTED))
    plural = bool(noun.plural) and draft.chance(0.5)
    negation = Word("no") if draft.chance(0.2) else None
    determiner = "no" if negation else draft.pick(("many", "some", "number", "number")) if plural else "a"
    thing = noun_phrase(draft, noun, "acc", determiner=determiner, plural=plural, negation=negation)
    place = at_place(draft, draft.pick(places_with(COUNTING)), False)
    while place.key == noun.english:
        place = at_place(draft, draft.pick(places_with(COUNTING)), False)
    there = Word("there")
    past = draft.chance(0.35)
    be = Word(("were" if plural else "was") if past else ("are" if plural else "is"))
    german = [Word("es", (there,)), Word("gab" if past else "gibt", (be,)), *thing.german, *place.german]
    draft.combine("place", noun.english, place.key)
    return [there, be, *thing.english, *place.english], german, False


def statement(
    draft: Draft, depth: int, subject: Phrase | None = None, time: str = "any", joined: bool = False
) -> tuple[list[Word], list[Word], bool, Clause | None]:
    """One main clause with what hangs on it; whether it ends in a clause; the clause itself for later reference.

    `joined` statements follow another one under "and" or "but".
    """
    roll = draft.rng.random()
    fronted: Phrase | None = None
    if subject is None and roll < 0.025:
        english, german, closed = existence(draft)
        return english, german, closed, None
    if subject is None and roll < 0.14:
        clause = reporting_clause(draft, Wish(time=time, specific=True), depth)
    elif subject is None and roll < 0.21:
        clause = control_clause(draft, Wish(time=time))
    elif subject is None and roll < 0.23:
        clause = judgement_clause(draft, Wish(time=time))
    elif subject is None and roll < 0.33 and depth > 0 and not joined:
        time = time if time != "any" else "past" if draft.chance(0.35) else "present"
        before, inner = subordinate(draft, None, time, depth - 1, comma=False)
        comma = Word(",")
        fronted = Phrase([*before.english, comma], [*before.german, Word(",", (comma,))])
        again = echo(draft, inner) if draft.chance(0.3) else None
        timeless = inner.time is None and before.english[0].text != "when"
        clause = any_clause(
            draft,
            Wish(time=time, trailing_time=timeless),
            again,
            depth=depth,
        )
    else:
        clause = any_clause(draft, Wish(time=time), subject, depth=depth)
        second = draft.rng.random()
        if second < 0.16:
            add_verb_phrase(draft, clause, Wish())
        elif depth > 0 and second < 0.36:
            add_adverbial(draft, clause, depth)
        elif depth > 0 and second < 0.44 and clause.verb.frame not in ("position", "special"):
            add_purpose(draft, clause)
    if fronted is None and clause.time is not None and draft.chance(0.4):
        fronted = clause.time
    english, german = say(clause, fronted)
    return english, german, clause.ends_in_clause, clause


def declarative(draft: Draft) -> tuple[list[Word], list[Word]]:
    """One to three statements, joined by and or but."""
    roll = draft.rng.random()
    count = 1 if roll < 0.76 else 2 if roll < 0.97 else 3
    english, german, closed, clause = statement(draft, 2 if count == 1 else 1)
    for _ in range(count - 1):
        again = echo(draft, clause) if clause is not None and draft.chance(0.3) else None
        time = "any" if clause is None else time_of(clause)
        more, mehr, last, clause = statement(draft, 1, again, time, joined=True)
        but = count == 2 and draft.chance(0.35)
        joint = fixed("but", "aber") if but else fixed("and", "und")
        if but or closed:
            comma = Word(",")
            english, german = [*english, comma], [*german, Word(",", (comma,))]
        english = [*english, *joint.english, *more]
        german = [*german, *joint.german, *mehr]
        closed = last
    return english, german


def yes_no_question(draft: Draft) -> tuple[list[Word], list[Word]]:
    """Does the teacher read the book? Do you know where he works?"""
    if draft.chance(0.12):
        clause = Clause(pronoun_phrase(PRONOUNS[5], "nom"), KNOW)
        clause.complement = indirect_question(draft, Wish(negatable=False, specific=True))
    else:
        wish = Wish(negatable=False, specific=True, modal_use="ask")
        clause = any_clause(draft, wish, depth=0 if draft.chance(0.7) else 1)
        if draft.chance(0.08) and time_of(clause) == "present" and not clause.passive:
            add_adverbial(draft, clause, 1)
    group = clause.group(inverted=True)
    return english_clause(clause, group, inverted=True), german_main(clause, group, verb_first=True)


def open_question(draft: Draft) -> tuple[list[Word], list[Word]]:
    """Where does the teacher work? Who buys the book?"""
    opener, clause = asked_clause(draft, Wish(negatable=False, specific=True, modal_use="ask"))
    inverted = opener is not clause.subject
    group = clause.group(inverted=inverted)
    english = english_clause(clause, group, fronted=opener, inverted=inverted)
    return english, german_main(clause, group, fronted=opener)


def command(draft: Draft) -> tuple[list[Word], list[Word], str]:
    """Open the door! Please open the door."""
    clause: Clause | None = None
    while clause is None or clause.tense != "present":
        wish = Wish(tense="present", adverbials=0.6, finite=False, trailing_time=False)
        clause = make_clause(draft, wish, subject=YOU, verb=draft.pick(COMMANDS), depth=1)
    polite = draft.chance(0.5)
    if polite:
        clause.please = fixed("please", "bitte")
    english, german = imperative_clause(clause)
    return english, german, "." if polite else "!"


def sentence(rng: Random) -> Pair:
    """One random sentence pair."""
    draft = Draft(rng)
    roll = rng.random()
    mark = "."
    if roll < 0.8:
        english, german = declarative(draft)
    elif roll < 0.88:
        english, german = yes_no_question(draft)
        mark = "?"
    elif roll < 0.96:
        english, german = open_question(draft)
        mark = "?"
    else:
        english, german, mark = command(draft)
    end = Word(mark)
    source = tidy([*english, end])
    target = tidy([*german, Word(mark, (end,))])
    return Pair(text_of(source), text_of(target), draft.combinations, source, target)
