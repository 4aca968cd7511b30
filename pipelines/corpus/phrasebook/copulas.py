"""Clauses of sein and werden, prices and weather: predicative adjectives, comparison, jobs, ages."""

from functools import cache

from dragoman.pipelines.corpus.phrasebook.adjectives import ADJECTIVES, Adjective
from dragoman.pipelines.corpus.phrasebook.clauses import Clause
from dragoman.pipelines.corpus.phrasebook.draft import Draft, nouns_with
from dragoman.pipelines.corpus.phrasebook.function_words import LARGE_NUMBERS, THING_PRONOUN, numeral
from dragoman.pipelines.corpus.phrasebook.noun_phrases import article_before, noun_phrase
from dragoman.pipelines.corpus.phrasebook.nouns import Noun
from dragoman.pipelines.corpus.phrasebook.predicates import Wish, choose_tense, subject_phrase
from dragoman.pipelines.corpus.phrasebook.verb_table import BE, BECOME, COST, SPECIAL
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, english_words, fixed

ANYTHING = frozenset({"person", "animal", "thing", "edible", "abstract", "place"})
CHANGES = frozenset({"tired", "sick", "hungry", "old", "rich", "famous", "happy", "sad"})
GOODS = frozenset({"goods"})
AMBIENT = (("cold", "kalt"), ("dark", "dunkel"), ("late", "spät"), ("warm", "warm"))


@cache
def predicates_of(features: frozenset[str]) -> tuple[Adjective, ...]:
    """The adjectives that can be said of something with these features."""
    return tuple(adjective for adjective in ADJECTIVES if adjective.goes_with & features)


@cache
def alike(item: Adjective, features: frozenset[str]) -> tuple[Noun, ...]:
    """What something of these features can be compared with: of the same category, and the adjective says it too."""
    category = features & ANYTHING
    return tuple(noun for noun in nouns_with(item.goes_with) if noun.features & category and noun.plural)


def adjective_predicate(draft: Draft, subject: Phrase, item: Adjective) -> Phrase:
    """big, very big, too big, bigger than the dog, as big as the dog."""
    draft.combine("predicate", subject.key, item.english)
    roll = draft.rng.random()
    if item.comparative and subject.key and 0.68 < roll < 0.88:
        others = [noun for noun in alike(item, subject.features) if noun.english != subject.key]
        if others:
            return comparison(
                draft, item, noun_phrase(draft, draft.pick(others), "nom", specific=True, bare=True), roll < 0.8
            )
    degree = {0: ("very", "sehr"), 1: ("too", "zu")}.get(int(roll * 10)) if item.english != "broken" else None
    english = english_words(item.english)
    german = [Word(item.german, tuple(english))]
    if degree is None:
        return Phrase(english, german)
    word = Word(degree[0])
    return Phrase([word, *english], [Word(degree[1], (word,)), *german])


def comparison(draft: Draft, item: Adjective, other: Phrase, more: bool) -> Phrase:
    """bigger than the dog: größer als der Hund; as big as the dog: so groß wie der Hund."""
    draft.combine("comparison", item.english, other.key)
    if more:
        english = english_words(item.comparative)
        than = Word("than")
        german = [Word(item.german_comparative, tuple(english)), Word("als", (than,))]
        return Phrase([*english, than, *other.english], [*german, *other.german])
    first, adjective, second = Word("as"), Word(item.english), Word("as")
    german = [Word("so", (first,)), Word(item.german, (adjective,)), Word("wie", (second,))]
    return Phrase([first, adjective, second, *other.english], [*german, *other.german])


def job_predicate(draft: Draft, clause: Clause) -> Phrase | None:
    """is a teacher: ist Lehrer; is not a teacher: ist kein Lehrer. By the sex of the subject; None if unknown."""
    subject = clause.subject
    sex = "male" if "male" in subject.features else "female" if "female" in subject.features else ""
    if not sex or subject.plural:
        return None
    jobs = [noun for noun in nouns_with(frozenset({"job"})) if sex in noun.features and noun.english != subject.key]
    noun = draft.pick(jobs)
    draft.combine("job", subject.key, noun.english)
    head = Word(noun.english)
    article = Word(article_before(head))
    if clause.negation is None:
        return Phrase([article, head], [Word(noun.german, (article, head))])
    clause.kein = True
    kein = "keine" if noun.gender == "f" else "kein"
    return Phrase([article, head], [Word(kein, (clause.negation, article)), Word(noun.german, (head,))])


def age_predicate(draft: Draft) -> Phrase:
    english, german = numeral(draft.pick(LARGE_NUMBERS))
    return fixed(f"{english} years old", f"{german} Jahre alt")


def copula_clause(draft: Draft, wish: Wish, subject: Phrase | None = None) -> Clause | None:
    """X is big, is a teacher, is forty years old, becomes tired; None if nothing can be said of the subject."""
    if subject is None:
        features = ANYTHING if draft.chance(0.6) else frozenset({"person"})
        subject = subject_phrase(draft, features if draft.chance(0.5) else frozenset({"person"}), wish.specific)
    clause = Clause(
        subject, BE, tense="past" if wish.time == "past" or (wish.time == "any" and draft.chance(0.3)) else "present"
    )
    if wish.negatable and subject.plain and draft.chance(0.14):
        clause.negation = Word("not")
    adjectives = predicates_of(subject.features)
    person = "person" in subject.features
    roll = draft.rng.random()
    if person and roll < 0.12:
        clause.predicate = job_predicate(draft, clause)
    elif person and roll < 0.2 and clause.negation is None:
        clause.predicate = age_predicate(draft)
    elif person and roll < 0.3 and clause.negation is None:
        changes = [item for item in adjectives if item.english in CHANGES]
        if changes:
            clause.verb = BECOME
            clause.predicate = adjective_predicate(draft, Phrase([], []), draft.pick(changes))
    if clause.predicate is None:
        said = {word.text for word in subject.english}  # "the hot rice is hot" says nothing
        adjectives = tuple(item for item in adjectives if item.english not in said)
        if not adjectives:
            return None
        clause.predicate = adjective_predicate(draft, subject, draft.pick(adjectives))
    return clause


def thing_clause(draft: Draft, wish: Wish, thing: Phrase) -> Clause | None:
    """A clause about a thing just named: it is new. German takes the pronoun of the noun's gender."""
    adjectives = [item for item in predicates_of(thing.features) if item.english not in ("cold", "dark")]
    if not adjectives:
        return None
    word = Word("they" if thing.plural else "it")
    german = "sie" if thing.plural else THING_PRONOUN[thing.gender]
    subject = Phrase(
        [word],
        [Word(german, (word,))],
        plural=thing.plural,
        gender=thing.gender,
        pronoun=True,
        features=thing.features,
    )
    clause = Clause(subject, BE, tense="past" if wish.time == "past" else "present")
    if draft.chance(0.15):
        clause.negation = Word("not")
    item = draft.pick(adjectives)
    draft.combine("predicate", thing.key, item.english)
    clause.predicate = adjective_predicate(draft, Phrase([], []), item)
    return clause


def price_clause(draft: Draft, wish: Wish) -> Clause:
    """The coat costs ninety euros: Der Mantel kostet neunzig Euro."""
    noun = draft.pick(nouns_with(GOODS))
    subject = noun_phrase(draft, noun, "nom", specific=True, plural=False)
    english, german = numeral(draft.pick(LARGE_NUMBERS))
    tense = choose_tense(draft, wish, COST, subject)
    clause = Clause(subject, COST, tense="past" if tense in ("past", "modal past") else "present")
    clause.predicate = fixed(f"{english} euros", f"{german} Euro")
    draft.combine("number", english, noun.english)
    return clause


def weather_clause(draft: Draft, wish: Wish) -> Clause:
    """It rains, it is cold: es as subject."""
    word = Word("it")
    subject = Phrase([word], [Word("es", (word,))], pronoun=True)
    past = wish.time == "past" or (wish.time == "any" and draft.chance(0.4))
    if draft.chance(0.5):
        return Clause(subject, SPECIAL[draft.pick(("rain", "snow"))], tense="past" if past else "present")
    clause = Clause(subject, BE, tense="past" if past else "present")
    clause.predicate = fixed(*draft.pick(AMBIENT))
    return clause
