"""Hand-checked sentences, one phenomenon each, built slot by slot so that nothing is drawn at random."""

from dataclasses import replace
from random import Random

import pytest

from dragoman.pipelines.corpus.phrasebook.clauses import (
    Clause,
    english_clause,
    german_final,
    german_main,
    imperative_clause,
    infinitive_clause,
)
from dragoman.pipelines.corpus.phrasebook.draft import Draft, nouns_with, places_with
from dragoman.pipelines.corpus.phrasebook.function_words import MODALS, PRONOUNS
from dragoman.pipelines.corpus.phrasebook.inflection import Case
from dragoman.pipelines.corpus.phrasebook.noun_phrases import noun_phrase, pronoun_phrase, with_preposition
from dragoman.pipelines.corpus.phrasebook.statements import relative_phrase
from dragoman.pipelines.corpus.phrasebook.verb_table import FRAMES, Verb
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, alignment_of, fixed, text_of, tidy, tokens

DRAFT = Draft(Random(0))
PLACES = frozenset({"home", "inner", "outside", "stop", "town"})
PLACE = {place.noun.english: place for place in places_with(PLACES)}


def noun(english: str, case: Case, determiner: str = "the", plural: bool = False, no: Word | None = None) -> Phrase:
    found = PLACE[english].noun if english in PLACE else nouns_with(frozenset({english}))[0]
    return noun_phrase(DRAFT, found, case, determiner=determiner, plural=plural, bare=True, negation=no)


def pronoun(english: str, case: Case = "nom") -> Phrase:
    return pronoun_phrase(next(item for item in PRONOUNS if item.english == english), case)


def verb(english: str, frame: str = "transitive") -> Verb:
    return next(item for item in FRAMES[frame] if item.english.base == english)


def main_clause(clause: Clause, fronted: Phrase | None = None) -> tuple[str, str]:
    group = clause.group()
    english = english_clause(clause, group, fronted=fronted)
    return text_of(english), text_of(tidy(german_main(clause, group, fronted=fronted)))


def question(clause: Clause, fronted: Phrase | None = None) -> tuple[str, str]:
    group = clause.group(inverted=True)
    english = english_clause(clause, group, fronted=fronted, inverted=True)
    return text_of(english), text_of(german_main(clause, group, fronted=fronted, verb_first=fronted is None))


def final(clause: Clause) -> str:
    group = clause.group()
    english_clause(clause, group)
    return text_of([Word("weil"), *german_final(clause, group)])


def reads(**slots: object) -> Clause:
    clause = Clause(noun("teacher", "nom"), verb("read"), accusative=noun("book", "acc"))
    return replace(clause, **slots)  # type: ignore[arg-type]  # the slots of a test case vary


def modal(english: str, use: str) -> Clause:
    found = next(item for item in MODALS if item.english == english and use in item.uses)
    return reads(tense="modal past" if use == "past" else "modal", modal=found)


def test_verb_second_with_subject_and_with_time_in_front() -> None:
    clause = reads(time=fixed("today", "heute"))
    assert main_clause(clause) == ("The teacher reads the book today", "Der Lehrer liest heute das Buch")
    clause = reads(time=fixed("today", "heute"))
    assert main_clause(clause, clause.time) == ("Today the teacher reads the book", "Heute liest der Lehrer das Buch")


def test_verb_final() -> None:
    assert final(reads(time=fixed("today", "heute"))) == "Weil der Lehrer heute das Buch liest"
    assert final(reads(tense="perfect")) == "Weil der Lehrer das Buch gelesen hat"
    assert final(modal("can", "affirm")) == "Weil der Lehrer das Buch lesen kann"


@pytest.mark.parametrize(
    ("tense", "english", "german"),
    [
        ("present", "The teacher reads the book", "Der Lehrer liest das Buch"),
        ("past", "The teacher read the book", "Der Lehrer las das Buch"),
        ("perfect", "The teacher has read the book", "Der Lehrer hat das Buch gelesen"),
        ("future", "The teacher will read the book", "Der Lehrer wird das Buch lesen"),
    ],
)
def test_tenses(tense: str, english: str, german: str) -> None:
    assert main_clause(reads(tense=tense)) == (english, german)


@pytest.mark.parametrize(
    ("name", "use", "english", "german"),
    [
        ("can", "affirm", "can read the book", "kann das Buch lesen"),
        ("must", "affirm", "must read the book", "muss das Buch lesen"),
        ("may", "affirm", "may read the book", "darf das Buch lesen"),
        ("should", "affirm", "should read the book", "sollte das Buch lesen"),
        ("want to", "affirm", "wants to read the book", "will das Buch lesen"),
        ("want to", "past", "wanted to read the book", "wollte das Buch lesen"),
        ("have to", "past", "had to read the book", "musste das Buch lesen"),
        ("would like to", "affirm", "would like to read the book", "möchte das Buch lesen"),
    ],
)
def test_modal_verbs(name: str, use: str, english: str, german: str) -> None:
    assert main_clause(modal(name, use)) == (f"The teacher {english}", f"Der Lehrer {german}")


@pytest.mark.parametrize(
    ("name", "english", "german"),
    [
        ("can", "cannot read the book", "kann das Buch nicht lesen"),
        ("must", "must not read the book", "darf das Buch nicht lesen"),
        ("have to", "does not have to read the book", "muss das Buch nicht lesen"),
        ("want to", "does not want to read the book", "will das Buch nicht lesen"),
    ],
)
def test_denied_modal_verbs(name: str, english: str, german: str) -> None:
    clause = replace(modal(name, "deny"), negation=Word("not"))
    assert main_clause(clause) == (f"The teacher {english}", f"Der Lehrer {german}")


def test_nicht_behind_a_definite_object_and_kein_for_an_indefinite_one() -> None:
    assert main_clause(reads(negation=Word("not")))[1] == "Der Lehrer liest das Buch nicht"
    no = Word("not")
    clause = reads(negation=no, kein=True, accusative=noun("book", "acc", "a", no=no))
    assert main_clause(clause) == ("The teacher does not read a book", "Der Lehrer liest kein Buch")
    no = Word("not")
    clause = reads(negation=no, kein=True, accusative=noun("newspaper", "acc", "a", True, no))
    assert main_clause(clause) == ("The teacher does not read newspapers", "Der Lehrer liest keine Zeitungen")


def test_separable_verb_splits_in_main_clauses_and_joins_elsewhere() -> None:
    clause = Clause(pronoun("we"), verb("tidy up"), accusative=noun("room", "acc"))
    assert main_clause(clause) == ("We tidy up the room", "Wir räumen das Zimmer auf")
    assert final(clause) == "Weil wir das Zimmer aufräumen"
    assert question(clause) == ("Do we tidy up the room", "Räumen wir das Zimmer auf")
    assert main_clause(replace(clause, tense="perfect"))[1] == "Wir haben das Zimmer aufgeräumt"
    english, german = infinitive_clause(clause)
    assert (text_of(english), text_of(german)) == ("To tidy up the room", "Das Zimmer aufzuräumen")


def test_english_particle_stands_behind_a_pronoun() -> None:
    clause = Clause(noun("father", "nom"), verb("pick up"), accusative=pronoun("he", "acc"))
    assert main_clause(clause) == ("The father picks him up", "Der Vater holt ihn ab")


def test_perfect_with_sein() -> None:
    station = with_preposition("to", "zu", noun("station", "dat"))
    clause = Clause(noun("boy", "nom"), verb("run", "motion"), tense="perfect", predicate=station)
    assert main_clause(clause) == ("The boy has run to the station", "Der Junge ist zum Bahnhof gelaufen")


def test_yes_no_question() -> None:
    assert question(reads()) == ("Does the teacher read the book", "Liest der Lehrer das Buch")
    assert question(reads(tense="perfect")) == ("Has the teacher read the book", "Hat der Lehrer das Buch gelesen")


def test_open_question() -> None:
    what = fixed("what", "was")
    assert question(reads(accusative=what), what) == ("What does the teacher read", "Was liest der Lehrer")
    when = fixed("when", "wann")
    assert question(reads(time=when), when) == ("When does the teacher read the book", "Wann liest der Lehrer das Buch")


def test_dative_precedes_accusative_and_english_to_moves() -> None:
    clause = Clause(noun("mother", "nom"), verb("give", "ditransitive"), tense="past")
    clause.dative, clause.accusative = noun("child", "dat"), noun("apple", "acc", "a")
    assert main_clause(clause) == ("The mother gave the child an apple", "Die Mutter gab dem Kind einen Apfel")


@pytest.mark.parametrize(
    ("english", "german", "place", "case", "expected"),
    [
        ("in", "in", "garden", "dat", "im Garten"),
        ("into", "in", "garden", "acc", "in den Garten"),
        ("into", "in", "house", "acc", "ins Haus"),
        ("to", "zu", "station", "dat", "zum Bahnhof"),
        ("to", "zu", "bakery", "dat", "zur Bäckerei"),
        ("at", "an", "lake", "dat", "am See"),
        ("by", "von", "doctor", "dat", "vom Arzt"),
        ("on", "auf", "table", "dat", "auf dem Tisch"),
        ("on", "auf", "table", "acc", "auf den Tisch"),
        ("in", "in", "kitchen", "dat", "in der Küche"),
    ],
)
def test_two_way_prepositions_and_contractions(
    english: str, german: str, place: str, case: Case, expected: str
) -> None:
    phrase = with_preposition(english, german, noun(place, case))
    assert " ".join(word.text for word in phrase.german) == expected


def test_time_manner_place_order() -> None:
    clause = reads(
        time=fixed("today", "heute"),
        manner=fixed("quietly", "leise"),
        place=with_preposition("in", "in", noun("garden", "dat")),
    )
    assert main_clause(clause) == (
        "The teacher reads the book quietly in the garden today",
        "Der Lehrer liest heute das Buch leise im Garten",
    )
    clause.accusative = noun("book", "acc", "a")
    assert main_clause(clause)[1] == "Der Lehrer liest heute leise ein Buch im Garten"


def test_object_pronouns_precede_a_full_subject_unless_they_look_like_one() -> None:
    clause = Clause(noun("teacher", "nom"), verb("help", "dative"), dative=pronoun("I", "dat"))
    clause.time = fixed("today", "heute")
    assert main_clause(clause, clause.time)[1] == "Heute hilft mir der Lehrer"
    clause = Clause(noun("teacher", "nom"), verb("visit"), accusative=pronoun("she", "acc"))
    clause.time = fixed("today", "heute")
    assert main_clause(clause, clause.time)[1] == "Heute besucht der Lehrer sie"


def test_reflexive_verb() -> None:
    clause = Clause(pronoun("I"), verb("rest", "intransitive"), tense="perfect")
    assert main_clause(clause) == ("I have rested", "Ich habe mich ausgeruht")
    clause = Clause(noun("man", "nom"), verb("hurry", "intransitive"), time=fixed("now", "jetzt"))
    assert main_clause(clause, clause.time) == ("Now the man hurries", "Jetzt beeilt sich der Mann")


def test_passive() -> None:
    clause = Clause(noun("house", "nom"), verb("build"), tense="past", passive=True)
    clause.agent = with_preposition("by", "von", noun("farmer", "dat"))
    assert main_clause(clause) == ("The house was built by the farmer", "Das Haus wurde vom Bauern gebaut")
    assert main_clause(replace(clause, tense="perfect"))[1] == "Das Haus ist vom Bauern gebaut worden"


def test_imperative() -> None:
    clause = Clause(pronoun("you"), verb("tidy up"), accusative=noun("room", "acc"), please=fixed("please", "bitte"))
    english, german = imperative_clause(clause)
    assert (text_of(english), text_of(german)) == ("Please tidy up the room", "Räumen Sie bitte das Zimmer auf")


@pytest.mark.parametrize(
    ("head", "plural", "verb_name", "frame", "case", "english", "german"),
    [
        ("man", False, "see", "transitive", "acc", "the man whom we see", "der Mann, den wir sehen"),
        ("woman", False, "help", "dative", "dat", "the woman whom we help", "die Frau, der wir helfen"),
        ("child", False, "see", "transitive", "acc", "the child whom we see", "das Kind, das wir sehen"),
        ("friend", True, "help", "dative", "dat", "the friends whom we help", "die Freunde, denen wir helfen"),
    ],
)
def test_relative_clauses(
    head: str, plural: bool, verb_name: str, frame: str, case: Case, english: str, german: str
) -> None:
    phrase = noun(head, "nom", "the", plural)
    opener = relative_phrase(phrase, case, "whom")
    clause = Clause(pronoun("we"), verb(verb_name, frame))
    if case == "dat":
        clause.dative = opener
    else:
        clause.accusative = opener
    group = clause.group()
    source = [*phrase.english, *english_clause(clause, group, fronted=opener)]
    target = [*phrase.german, Word(","), *german_final(clause, group, fronted=opener)]
    assert (text_of(source).lower(), text_of(target).lower()) == (english, german.lower())


def test_relative_clause_of_an_object_moves_behind_the_verb_and_that_of_a_subject_does_not() -> None:
    book = noun("book", "acc")
    book.tail = [Word(","), Word("das"), Word("sie"), Word("kauft")]
    assert main_clause(reads(tense="perfect", accusative=book))[1] == "Der Lehrer hat das Buch gelesen, das sie kauft"
    teacher = noun("teacher", "nom")
    teacher.tail = [Word(","), Word("der"), Word("schläft")]
    assert main_clause(reads(subject=teacher))[1] == "Der Lehrer, der schläft, liest das Buch"


def test_joined_verb_phrases_share_subject_and_auxiliary() -> None:
    second = Clause(noun("teacher", "nom"), verb("open"), tense="perfect", accusative=noun("door", "acc"))
    clause = reads(tense="perfect", second=second, joint=fixed("and", "und"))
    assert main_clause(clause) == (
        "The teacher has read the book and opened the door",
        "Der Lehrer hat das Buch gelesen und die Tür geöffnet",
    )
    assert final(clause) == "Weil der Lehrer das Buch gelesen und die Tür geöffnet hat"


def test_alignment_of_hand_checked_examples() -> None:
    clause = Clause(pronoun("we"), verb("tidy up"), accusative=noun("room", "acc"), time=fixed("today", "heute"))
    group = clause.group()
    english, german = english_clause(clause, group), german_main(clause, group)
    assert tokens(text_of(english)) == ["We", "tidy", "up", "the", "room", "today"]
    assert tokens(text_of(german)) == ["Wir", "räumen", "heute", "das", "Zimmer", "auf"]
    # tidy up: räumen ... auf; the room: das Zimmer; today: heute
    assert alignment_of(english, german) == [(0, 0), (1, 1), (1, 5), (2, 1), (2, 5), (3, 3), (4, 4), (5, 2)]

    no = Word("not")
    clause = reads(negation=no, kein=True, accusative=noun("book", "acc", "a", no=no))
    group = clause.group()
    english, german = english_clause(clause, group), german_main(clause, group)
    # The teacher does not read a book: Der Lehrer liest kein Buch
    assert alignment_of(english, german) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 4)]
