"""Clauses within clauses: because ..., that ..., whether ..., where ..., to ..., in order to ..., without ...-ing.

Each comes as a phrase whose German side begins with its comma and stands behind the verb of the main clause.
"""

from dataclasses import replace

from dragoman.pipelines.corpus.phrasebook.clauses import Clause, english_clause, german_final, infinitive_clause
from dragoman.pipelines.corpus.phrasebook.copulas import thing_clause
from dragoman.pipelines.corpus.phrasebook.draft import Draft
from dragoman.pipelines.corpus.phrasebook.function_words import PRONOUNS, SUBORDINATORS
from dragoman.pipelines.corpus.phrasebook.noun_phrases import PERSON, pronoun_phrase
from dragoman.pipelines.corpus.phrasebook.predicates import Wish, choose_tense, subject_phrase
from dragoman.pipelines.corpus.phrasebook.questions import asked_clause
from dragoman.pipelines.corpus.phrasebook.statements import any_clause, make_clause
from dragoman.pipelines.corpus.phrasebook.verb_groups import Tense
from dragoman.pipelines.corpus.phrasebook.verb_table import BE, COST, FRAMES
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, english_words, fixed

KNOW = next(verb for verb in FRAMES["clausal"] if verb.key == "know")
ASK = next(verb for verb in FRAMES["clausal"] if verb.key == "ask")
SAYING = tuple(verb for verb in FRAMES["clausal"] if verb.targets == ("that",))
JUDGEMENTS = (("important", "wichtig"), ("easy", "leicht"), ("difficult", "schwierig"), ("dangerous", "gefährlich"))


def time_of(clause: Clause) -> str:
    """The time, present or past, that a clause under this one agrees with."""
    return "past" if clause.tense in ("past", "modal past") else "present"


def echo(draft: Draft, clause: Clause) -> Phrase | None:
    """he, she, they or the first-person pronoun for the subject of a clause, where nothing else could be meant."""
    subject = clause.subject
    if "person" not in subject.features:
        return None
    if subject.pronoun:
        for pronoun in PRONOUNS:
            if pronoun.german["nom"] == subject.german[0].text and pronoun.plural == subject.plural:
                return pronoun_phrase(pronoun, "nom")
        return None
    if subject.plural:
        return pronoun_phrase(PRONOUNS[4], "nom")
    if subject.gender == "n" or not subject.key:
        return None
    return pronoun_phrase(PRONOUNS[1 if subject.gender == "m" else 2], "nom")


def inner_clause(draft: Draft, wish: Wish, outer: Clause | None, depth: int, *, action: bool = False) -> Clause:
    """A clause under another: its subject may repeat the outer one; it may have a second verb phrase."""
    subject = echo(draft, outer) if outer is not None and draft.chance(0.38) else None
    clause = any_clause(draft, wish, subject, depth=max(0, depth - 1), action=action)
    if draft.chance(0.1):
        add_verb_phrase(draft, clause, wish)
    elif depth > 1 and draft.chance(0.18):
        add_adverbial(draft, clause, depth - 1)
    return clause


def under(opener: Phrase, clause: Clause, *, comma: bool = True) -> Phrase:
    """A verb-final clause behind its conjunction."""
    group = clause.group()
    english = english_clause(clause, group)
    german = german_final(clause, group)
    return Phrase([*opener.english, *english], [*([Word(",")] if comma else []), *opener.german, *german])


def subordinate(
    draft: Draft, outer: Clause | None, time: str, depth: int, *, comma: bool = True
) -> tuple[Phrase, Clause]:
    """because, although, if, when, while, before, until with their clause."""
    names = [name for name, (_, limit) in SUBORDINATORS.items() if limit in ("any", "same", time)]
    if outer is not None and (outer.tense == "perfect" or outer.time is not None or outer.verb is COST):
        names = ["because", "although"]
    name = "because" if draft.chance(0.3) else draft.pick(names)
    german, limit = SUBORDINATORS[name]
    tense: Tense | None = ("past" if time == "past" else "present") if limit == "same" else None
    wish = Wish(time=time, adverbials=0.7, tense=tense, negatable=limit != "same", specific=True)
    if outer is not None and outer.time is not None:
        wish.trailing_time = False
    clause: Clause | None = None
    if outer is not None and name in ("because", "although") and draft.chance(0.4):
        thing = outer.accusative
        if thing is not None and not thing.tail and outer.verb.frame == "transitive" and not thing.pronoun:
            countable = thing.features & {"thing", "abstract", "edible"} and not outer.kein and outer.second is None
            clause = thing_clause(draft, wish, thing) if countable else None
    clause = clause or inner_clause(draft, wish, outer, depth, action=limit == "same")
    draft.combine("conjunction", name, clause.verb.key)
    return under(fixed(name, german), clause, comma=comma), clause


def add_adverbial(draft: Draft, clause: Clause, depth: int) -> None:
    """An adverbial clause behind a clause that does not yet end in one."""
    if not clause.ends_in_clause:
        clause.complement, _ = subordinate(draft, clause, time_of(clause), depth)


def add_verb_phrase(draft: Draft, clause: Clause, wish: Wish) -> None:
    """and ... : a second verb with the same subject and auxiliary; left out where none fits."""
    fits = clause.tense in ("present", "past", "modal", "perfect") and not clause.passive and clause.negation is None
    person = "person" in clause.subject.features and clause.verb.frame not in ("special", "clausal", "control")
    if not fits or not person or clause.ends_in_clause or clause.time is not None or clause.frequency is not None:
        return
    if clause.modal is not None and clause.modal.support:
        return
    limits = replace(wish, negatable=False, tense="present" if clause.tense in ("modal", "perfect") else clause.tense)
    stub = replace(clause.subject, tail=[], key="")
    second = make_clause(draft, limits, subject=stub, depth=0)
    if second is None or second.tense in ("modal", "modal past") or second.verb.key == clause.verb.key:
        return
    if clause.tense == "perfect" and (
        second.time is not None or second.verb.german.with_sein != clause.verb.german.with_sein
    ):
        return
    second.tense, second.modal, second.frequency = clause.tense, clause.modal, None
    clause.second, clause.joint = second, fixed("and", "und")


def reporting_clause(draft: Draft, wish: Wish, depth: int) -> Clause:
    """says that ..., asks whether ..., does not know where ..."""
    roll = draft.rng.random()
    verb = draft.pick(SAYING) if roll < 0.6 else ASK if roll < 0.8 else KNOW
    subject = subject_phrase(draft, PERSON, True)
    simple = choose_tense(draft, wish, verb, subject)
    clause = Clause(subject, verb, tense="past" if simple in ("past", "modal past") else "present")
    if roll < 0.6 and simple == "perfect" and verb.key in ("say", "hear", "see", "write", "notice"):
        clause.tense = "perfect"
    if verb is KNOW and roll >= 0.8:
        clause.negation = Word("not")
    draft.combine("subject", subject.key, verb.key)
    time = "past" if clause.tense == "past" else "any"
    inner = Wish(time=time, adverbials=0.75, specific=True)
    if roll < 0.6:
        clause.complement = under(fixed("that", "dass"), inner_clause(draft, inner, clause, depth))
    elif roll < 0.72 or 0.8 <= roll < 0.88:
        clause.complement = under(fixed("whether", "ob"), inner_clause(draft, inner, clause, depth))
    else:
        clause.complement = indirect_question(draft, replace(inner, negatable=False))
    return clause


def indirect_question(draft: Draft, wish: Wish) -> Phrase:
    """where the teacher works: wo der Lehrer arbeitet, behind its comma."""
    opener, asked = asked_clause(draft, wish)
    group = asked.group()
    english = english_clause(asked, group, fronted=opener)
    return Phrase(english, [Word(","), *german_final(asked, group, fronted=opener)])


def infinitive_of(
    draft: Draft, subject: Phrase, *, gerund: bool = False, timed: bool = False
) -> tuple[list[Word], list[Word]]:
    """An infinitive clause whose unspoken subject is given."""
    wish = Wish(tense="present", negatable=False, adverbials=0.6, finite=False, trailing_time=timed)
    while True:
        clause = make_clause(draft, wish, subject=replace(subject, tail=[], key=""), depth=1)
        if clause is not None and clause.tense == "present" and clause.verb.key not in ("have", "know", "belong to"):
            break
    if draft.chance(0.1):
        add_verb_phrase(draft, clause, wish)
    return infinitive_clause(clause, gerund=gerund)


def control_clause(draft: Draft, wish: Wish) -> Clause:
    """tries to open the door: versucht, die Tür zu öffnen."""
    verb = draft.pick(FRAMES["control"])
    subject = subject_phrase(draft, PERSON, wish.specific)
    tense = choose_tense(draft, wish, verb, subject)
    if tense in ("modal", "modal past", "future"):
        tense = "past" if tense == "modal past" else "present"
    clause = Clause(subject, verb, tense=tense)
    if subject.plain and draft.chance(0.1):
        clause.negation = Word("not")
    draft.combine("subject", subject.key, verb.key)
    english, german = infinitive_of(
        draft, subject, gerund=verb.targets == ("ing",), timed=tense != "past" and verb.targets == ("to",)
    )
    clause.complement = Phrase(english, [Word(","), *german])
    return clause


def judgement_clause(draft: Draft, wish: Wish) -> Clause:
    """It is important to open the door: Es ist wichtig, die Tür zu öffnen."""
    word = Word("it")
    subject = Phrase([word], [Word("es", (word,))], pronoun=True)
    clause = Clause(subject, BE, tense="past" if wish.time == "past" else "present")
    if draft.chance(0.2):
        clause.negation = Word("not")
    clause.predicate = fixed(*draft.pick(JUDGEMENTS))
    nobody = Phrase([], [Word("man")], features=frozenset({"person", "animate", "adult"}))
    english, german = infinitive_of(draft, nobody)
    clause.complement = Phrase(english, [Word(","), *german])
    return clause


def add_purpose(draft: Draft, clause: Clause) -> None:
    """in order to ...: um ... zu; without ...-ing: ohne ... zu."""
    if (
        clause.ends_in_clause
        or "person" not in clause.subject.features
        or clause.passive
        or clause.negation is not None
    ):
        return
    if draft.chance(0.62):
        english, german = infinitive_of(draft, clause.subject)
        opener = english_words("in order")
        um = Word("um", tuple(opener))
    else:
        english, german = infinitive_of(draft, clause.subject, gerund=True)
        opener = english_words("without")
        um = Word("ohne", tuple(opener))
    clause.complement = Phrase([*opener, *english], [Word(","), um, *german])
