"""Word order: one clause with its slots, spelt out as English and German main, final, question or infinitive clause.

German middle field, left to right: pronouns, time, dative, definite object, frequency, nicht, company and manner,
indefinite object, place, agent, prepositional object, predicate; relative clauses of objects move behind the verb.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.pipelines.corpus.phrasebook.function_words import Modal
from dragoman.pipelines.corpus.phrasebook.verb_groups import (
    Tense,
    VerbGroup,
    imperative,
    infinitive_with_zu,
    verb_group,
)
from dragoman.pipelines.corpus.phrasebook.verb_table import Verb
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, english_words

REFLEXIVE = {(1, False): "mich", (1, True): "uns"}


@dataclass(slots=True, eq=False)
class Clause:
    """What a clause says; the functions below say it in both languages."""

    subject: Phrase
    verb: Verb
    tense: Tense = "present"
    modal: Modal | None = None
    passive: bool = False
    negation: Word | None = None
    kein: bool = False  # the negation is in the object
    dative: Phrase | None = None
    accusative: Phrase | None = None
    prepositional: Phrase | None = None
    predicate: Phrase | None = None  # predicative, direction, or place that the verb asks for
    agent: Phrase | None = None
    manner: Phrase | None = None  # or company
    place: Phrase | None = None
    time: Phrase | None = None
    frequency: Phrase | None = None
    complement: Phrase | None = None  # a clause at the end, with its German comma
    second: "Clause | None" = None  # a verb phrase joined by "and": same subject, tense and auxiliary
    joint: Phrase | None = None  # the conjunction before `second`
    please: Phrase | None = None
    verbs: list[Word] = field(default_factory=list)  # English lexical words, for the German reflexive
    spoken: VerbGroup | None = None  # the forms that the English side used, for the German one to link to

    def group(self, inverted: bool = False) -> VerbGroup:
        group = verb_group(
            self.verb,
            self.subject,
            self.tense,
            modal=self.modal,
            passive=self.passive,
            negation=self.negation,
            inverted=inverted,
        )
        self.verbs = group.lexical
        self.spoken = group
        return group

    @property
    def slots(self) -> tuple[Phrase | None, ...]:
        return (self.dative, self.accusative, self.prepositional, self.predicate, self.agent, self.place)

    @property
    def ends_in_clause(self) -> bool:
        """A further clause can be added only behind a comma."""
        if self.second is not None and self.second.ends_in_clause:
            return True
        return self.complement is not None or any(slot is not None and slot.tail for slot in self.slots)


def english_rest(clause: Clause, lexical: list[Word], fronted: Phrase | None) -> list[Word]:
    """The lexical verb and all that follows it."""
    words = list(lexical)
    dative, accusative = clause.dative, clause.accusative
    if dative is fronted:
        dative = None
    if accusative is fronted:
        accusative = None
    if accusative is not None and accusative.pronoun and clause.verb.english.particle:
        words = [*words[:-1], *accusative.english, words[-1]]
        accusative = None
    if dative is not None and clause.verb.targets != ("to",):
        words += dative.english
        dative = None
    if accusative is not None:
        words += accusative.english
    if dative is not None:
        words += dative.english
    for slot in (clause.manner, clause.agent, clause.prepositional, clause.predicate, clause.place, clause.time):
        if slot is not None and slot is not fronted:
            words += slot.english
    if clause.complement is not None:
        words += clause.complement.english
    return words


def english_clause(
    clause: Clause, group: VerbGroup, *, fronted: Phrase | None = None, inverted: bool = False
) -> list[Word]:
    """Subject, auxiliary, not, verb, objects, manner, place, time; `fronted` goes first."""
    words = list(fronted.english) if fronted is not None else []
    subject = [] if clause.subject is fronted else clause.subject.english
    words += [*group.front, *subject] if inverted else [*subject, *group.front]
    if clause.negation is not None and clause.negation.text == "not":
        words.append(clause.negation)
    if clause.frequency is not None:
        words += clause.frequency.english
    words += [*group.modal, *english_rest(clause, group.lexical, fronted)]
    if clause.second is not None and clause.joint is not None:
        words += [*clause.joint.english, *second_english(clause.second)]
    return words


def second_english(second: Clause) -> list[Word]:
    """A joined verb phrase, without the auxiliary that the first one has said."""
    group = second.group()
    front = [] if group.periphrastic else group.front
    return [*front, *english_rest(second, group.lexical, None)]


def early_pronouns(clause: Clause, fronted: Phrase | None) -> list[Word]:
    """The object pronouns that precede a full subject behind the verb: Heute hilft mir der Lehrer.

    Those that could be taken for the subject (sie, Sie) stay behind it.
    """
    if clause.subject.pronoun:
        return []
    slots = [slot for slot in (clause.accusative, clause.dative) if slot is not None and slot is not fronted]
    return [word for slot in slots if slot.pronoun for word in slot.german if word.text not in ("sie", "Sie")]


def middle(clause: Clause, fronted: Phrase | None, early: Sequence[Word] = ()) -> list[Word]:
    """The German middle field without the subject, a reflexive pronoun, and what stands `early`."""
    words: list[Word] = []
    dative = None if clause.dative is fronted else clause.dative
    accusative = None if clause.accusative is fronted else clause.accusative
    for phrase in (accusative, dative):
        if phrase is not None and phrase.pronoun:
            words += [word for word in phrase.german if word not in early]
    for slot in (clause.please, clause.time):
        if slot is not None and slot is not fronted:
            words += slot.german
    if dative is not None and not dative.pronoun:
        words += dative.german
    if accusative is not None and accusative.definite and not accusative.pronoun:
        words += accusative.german
    if clause.frequency is not None:
        words += clause.frequency.german
    if clause.negation is not None and not clause.kein:
        words.append(Word("nicht", (clause.negation,)))
    if clause.manner is not None and clause.manner is not fronted:
        words += clause.manner.german
    place = None if clause.place is fronted else clause.place
    if accusative is not None and not accusative.definite:
        if place is not None and "spot" in place.features:
            words += place.german
            place = None
        words += accusative.german
    for slot in (place, clause.agent, clause.prepositional, clause.predicate):
        if slot is not None and slot is not fronted:
            words += slot.german
    return words


def afterfield(clause: Clause) -> Iterator[Word]:
    """What stands behind the verb: the relative clause of an object, a complement clause."""
    for slot in clause.slots:
        if slot is not None:
            yield from slot.tail
    if clause.second is not None:
        yield from afterfield(clause.second)
    if clause.complement is not None:
        yield from clause.complement.german


def reflexive(clause: Clause) -> list[Word]:
    if not clause.verb.german.reflexive:
        return []
    subject = clause.subject
    return [Word(REFLEXIVE.get((subject.person, subject.plural), "sich"), tuple(clause.verbs))]


def second_german(clause: Clause, *, final: bool) -> list[Word]:
    """The joined verb phrase with its conjunction: und schließt das Fenster, und das Fenster schließt."""
    second = clause.second
    if second is None or clause.joint is None:
        return []
    group = second.spoken
    assert group is not None, "the English side is written first"
    words = [*reflexive(second), *middle(second, None)]
    if group.periphrastic:
        words += group.end
    elif final:
        words.append(group.joined)
    else:
        words = [group.finite, *words, *([group.particle] if group.particle is not None else [])]
    return [*clause.joint.german, *words]


def german_subject(clause: Clause) -> list[Word]:
    subject = clause.subject
    return [*subject.german, *subject.tail, Word(",")] if subject.tail else subject.german


def german_main(
    clause: Clause, group: VerbGroup, *, fronted: Phrase | None = None, verb_first: bool = False
) -> list[Word]:
    """Verb-second order, with the subject or `fronted` before the verb; `verb_first` for questions."""
    itself = reflexive(clause)
    subject = german_subject(clause)
    if fronted is clause.subject:
        fronted = None
    early: list[Word] = []
    if fronted is None and not verb_first:
        words = [*subject, group.finite, *itself]
    else:
        early = early_pronouns(clause, fronted)
        before = fronted.german if fronted is not None else []
        order = [*subject, *itself] if clause.subject.pronoun else [*itself, *early, *subject]
        words = [*before, group.finite, *order]
    words += middle(clause, fronted, early)
    if group.particle is not None:
        words.append(group.particle)
    return [*words, *group.end, *second_german(clause, final=False), *afterfield(clause)]


def german_final(clause: Clause, group: VerbGroup, *, fronted: Phrase | None = None) -> list[Word]:
    """Verb-final order; `fronted` is a relative or question word. Joined verb phrases share one final auxiliary."""
    words = list(fronted.german) if fronted is not None else []
    if fronted is not clause.subject:
        words += german_subject(clause)
    words += [*reflexive(clause), *middle(clause, fronted), *group.end]
    joined = second_german(clause, final=True)
    words += [*joined, group.joined] if group.periphrastic else [group.joined, *joined]
    return [*words, *afterfield(clause)]


def infinitive_clause(clause: Clause, *, gerund: bool = False) -> tuple[list[Word], list[Word]]:
    """to open the door: die Tür zu öffnen; the German side without its comma."""
    lexical, end = infinitive_with_zu(clause.verb, gerund)
    clause.verbs = lexical
    english = english_rest(clause, lexical, None)
    if clause.negation is not None:
        english = [clause.negation, *english]
    german = [*reflexive(clause), *middle(clause, None), *end]
    if clause.second is not None and clause.joint is not None:
        more, mehr = infinitive_clause(clause.second, gerund=gerund)
        return [*english, *clause.joint.english, *more], [*german, *clause.joint.german, *mehr]
    return english, [*german, *afterfield(clause)]


def imperative_clause(clause: Clause) -> tuple[list[Word], list[Word]]:
    """Please open the door: Öffnen Sie bitte die Tür."""
    lexical, verb, you, particle = imperative(clause.verb)
    clause.verbs = lexical
    english = english_rest(clause, lexical, None)
    if clause.negation is not None:
        do = english_words("do")
        verb = Word(verb.text, (*do, *verb.links))
        english = [*do, clause.negation, *english]
    if clause.please is not None:
        english = [*clause.please.english, *english]
    german = [verb, you, *reflexive(clause), *middle(clause, None)]
    if particle is not None:
        german.append(particle)
    return english, [*german, *afterfield(clause)]
