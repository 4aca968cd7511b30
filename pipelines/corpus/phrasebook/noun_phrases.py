"""Noun phrases: determiner, adjectives, noun, in English and in a German case; names, pronouns, prepositions."""

from dragoman.pipelines.corpus.phrasebook.adjectives import Adjective
from dragoman.pipelines.corpus.phrasebook.draft import Draft, adjectives_for, nouns_with
from dragoman.pipelines.corpus.phrasebook.function_words import NUMBERS, PRONOUNS, Pronoun, numeral
from dragoman.pipelines.corpus.phrasebook.inflection import (
    CONTRACTIONS,
    Case,
    Ending,
    adjective,
    definite,
    der_word,
    ein_word,
)
from dragoman.pipelines.corpus.phrasebook.inflection import noun as decline
from dragoman.pipelines.corpus.phrasebook.nouns import Noun
from dragoman.pipelines.corpus.phrasebook.places import NAMES
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, english_words, german_words

PERSON = frozenset({"person"})
QUANTIFIERS = {"many": ("viel", "strong"), "some": ("einig", "strong"), "all": ("all", "weak")}
SPECIFIC = ("the", "the", "the", "possessive", "this", "genitive")
SINGULAR = ("the",) * 9 + ("a",) * 6 + ("possessive",) * 3 + ("this", "every", "genitive")
PLURAL = ("the",) * 6 + ("a",) * 3 + ("possessive",) * 2 + ("this", "many", "some", "all", "number", "number")
MASS = ("the", "the", "a", "a", "a", "possessive")


def article_before(word: Word) -> str:
    """a or an, by the sound that the next English word begins with."""
    return "an" if word.text[0] in "aeiouAEIOU" and not word.text.startswith("uni") else "a"


def choose_determiner(draft: Draft, noun: Noun, plural: bool, specific: bool) -> str:
    if specific:
        determiner = draft.pick(SPECIFIC)
    elif "mass" in noun.features:
        determiner = draft.pick(MASS)
    else:
        determiner = draft.pick(PLURAL if plural else SINGULAR)
    if "kin" in noun.features and determiner in ("the", "a", "this", "every", "some", "many") and draft.chance(0.75):
        return "possessive"
    if determiner == "possessive" and "unowned" in noun.features:
        return "the"
    if determiner == "genitive" and "thing" not in noun.features and "kin" not in noun.features:
        return "the"
    return determiner


def attribute(draft: Draft, item: Adjective, noun: Noun, graded: str) -> tuple[str, str]:
    """English text and German stem of an attribute in the grade positive, comparative or superlative."""
    draft.combine("adjective", item.english, noun.english)
    if graded == "comparative":
        return item.comparative, item.german_comparative
    if graded == "superlative":
        return item.superlative, item.german_superlative
    return item.english, item.stem


def adjective_words(
    draft: Draft, noun: Noun, determiner: str, ending: Ending, case: Case, form: str
) -> tuple[list[Word], list[Word]]:
    """Up to two adjectives, perhaps graded or with an adverb of degree, in both languages."""
    english: list[Word] = []
    german: list[Word] = []
    qualities, colors = adjectives_for(noun)
    roll = draft.rng.random()
    if qualities and roll < 0.26:
        item = draft.pick(qualities)
        grade = "positive"
        if item.comparative and roll < 0.05:
            if determiner == "the" and roll < 0.03:
                grade = "superlative"
            elif determiner == "a":
                grade = "comparative"
        text, stem = attribute(draft, item, noun, grade)
        if grade == "positive" and roll > 0.235 and item.english != "broken":
            very = Word("very")
            english.append(very)
            german.append(Word("sehr", (very,)))
        words = english_words(text)
        english += words
        german.append(Word(adjective(stem, ending, case, form), tuple(words)))
    if colors and 0.2 < roll < 0.31:
        item = draft.pick(colors)
        text, stem = attribute(draft, item, noun, "positive")
        word = Word(text)
        english.append(word)
        german.append(Word(adjective(stem, ending, case, form), (word,)))
    return english, german


def possessor(draft: Draft, case: Case, form: str) -> tuple[list[Word], list[Word], list[Word]]:
    """The genitive: English words, German words before the noun, German words after it.

    the teacher's book: das Buch des Lehrers; Anna's book: Annas Buch.
    """
    sign = Word("'s")
    if draft.chance(0.5):
        name = Word(draft.pick(NAMES)[0])
        return [name, sign], [Word(name.text + "s", (name, sign))], []
    owner = draft.pick(nouns_with(PERSON))
    kin = "kin" in owner.features
    if kin:
        pronoun = draft.pick(PRONOUNS)
        determiner = Word(pronoun.possessive[0])
        german = ein_word(pronoun.possessive[1], "gen", owner.gender)
    else:
        determiner = Word("the")
        german = definite("gen", owner.gender)
    noun = Word(owner.english)
    declined = decline(owner.german, owner.genitive, owner.plural, owner.gender, "gen", False)
    before = [Word(definite(case, form), (sign,))]
    return [determiner, noun, sign], before, [Word(german, (determiner,)), Word(declined, (noun,))]


def noun_phrase(
    draft: Draft,
    noun: Noun,
    case: Case,
    *,
    determiner: str = "",
    plural: bool | None = None,
    specific: bool = False,
    negation: Word | None = None,
    bare: bool = False,
) -> Phrase:
    """A noun phrase in a German case.

    `determiner` names one, else it is drawn; `specific` draws definite ones only; `negation` is the English "not"
    that becomes kein; `bare` leaves adjectives out.
    """
    if plural is None:
        plural = bool(noun.plural) and draft.chance(0.27)
    determiner = determiner or choose_determiner(draft, noun, plural, specific)
    if determiner in ("every", "genitive"):
        plural = False
    form = "p" if plural else noun.gender
    front: list[Word] = []
    before: list[Word] = []
    after: list[Word] = []
    ending: Ending = "weak"
    if determiner == "genitive":
        front, before, after = possessor(draft, case, form)
        ending = "weak" if after else "strong"
    elif determiner == "the":
        front = [Word("the")]
        before = [Word(definite(case, form), (front[0],))]
    elif determiner == "possessive":
        pronoun = draft.pick(PRONOUNS)
        front = [Word(pronoun.possessive[0])]
        before = [Word(ein_word(pronoun.possessive[1], case, form), (front[0],))]
        ending = "mixed"
    elif determiner == "this":
        front = [Word("these" if plural else "this")]
        before = [Word(der_word("dies", case, form), (front[0],))]
    elif determiner == "every":
        front = [Word("every")]
        before = [Word(der_word("jed", case, form), (front[0],))]
    elif determiner == "which":
        front = [Word("which")]
        before = [Word(der_word("welch", case, form), (front[0],))]
    elif determiner == "how many":
        ending = "strong"
        front = english_words("how many")
        before = [Word("wie", (front[0],)), Word("viele", (front[1],))]
    elif determiner in QUANTIFIERS:
        stem = QUANTIFIERS[determiner][0]
        ending = "weak" if determiner == "all" else "strong"
        front = [Word(determiner)]
        before = [Word(der_word(stem, case, form), (front[0],))]
    elif determiner == "number":
        number = draft.pick(NUMBERS) if draft.chance(0.9) else 20 + int(draft.rng.random() * 80)
        text, german = numeral(number)
        front = [Word(text)]
        before = [Word(german, (front[0],))]
        ending = "strong"
    countable = not plural and bool(noun.plural)
    links: tuple[Word, ...] = ()
    if determiner in ("a", "no"):
        ending = "strong"
        if negation is not None:
            ending, links = "mixed", (negation,)
        elif countable:
            ending = "mixed"
    adjectives, declined = ([], []) if bare else adjective_words(draft, noun, determiner, ending, case, form)
    head = Word(noun.english_plural if plural else noun.english)
    if determiner == "a":
        if countable:
            front = [Word(article_before((adjectives or [head])[0]))]
            links = (*links, front[0])
        if links:
            before = [Word(ein_word("ein" if negation is None else "kein", case, form), links)]
    elif determiner == "no" and negation is not None:
        front = [negation]
        before = [Word(ein_word("kein", case, form), links)]
    german_noun = Word(decline(noun.german, noun.genitive, noun.plural, noun.gender, case, plural), (head,))
    return Phrase(
        [*front, *adjectives, head],
        [*before, *declined, german_noun, *after],
        plural=plural,
        gender=noun.gender,
        definite=determiner in ("the", "possessive", "this", "genitive", "every", "all"),
        key=noun.english,
        features=noun.features,
        plain=determiner in ("the", "possessive", "this", "genitive"),
    )


def pronoun_phrase(pronoun: Pronoun, case: Case) -> Phrase:
    word = Word(pronoun.english if case == "nom" else pronoun.english_object)
    return Phrase(
        [word],
        [Word(pronoun.german[case], (word,))],
        person=pronoun.person,
        plural=pronoun.plural,
        gender=pronoun.gender,
        pronoun=True,
        features=PRONOUN_FEATURES[pronoun.gender if pronoun.person == 3 and not pronoun.plural else "n"],
    )


PRONOUN_FEATURES = {
    "m": frozenset({"person", "animate", "male", "adult"}),
    "f": frozenset({"person", "animate", "female", "adult"}),
    "n": frozenset({"person", "animate", "adult"}),
}


def name_phrase(draft: Draft) -> Phrase:
    """A first name: no article, the same in every case but the genitive."""
    name, gender = draft.pick(NAMES)
    word = Word(name)
    return Phrase([word], [Word(name, (word,))], gender=gender, features=PRONOUN_FEATURES[gender], key=name)


def joined(first: Phrase, second: Phrase, english: str = "and", german: str = "und") -> Phrase:
    """Two noun phrases under a conjunction: a plural."""
    conjunction = Word(english)
    return Phrase(
        [*first.english, conjunction, *second.english],
        [*first.german, Word(german, (conjunction,)), *second.german],
        plural=True,
        definite=first.definite and second.definite,
        features=first.features & second.features,
        plain=first.plain and second.plain,
    )


def with_preposition(english: str, german: str, phrase: Phrase) -> Phrase:
    """A prepositional phrase, contracted (im, zum) where a plain definite article follows.

    An article that a relative clause depends on stays whole: in dem Haus, das ...; no English preposition
    ("remembers the trip", sich an die Reise erinnern) links the German one to the first word of the phrase.
    """
    source = english_words(english)
    first, *rest = phrase.german
    links = tuple(source) or (phrase.english[0],)
    short = CONTRACTIONS.get((german, first.text))
    if short and not phrase.tail and first.links and first.links[0].text in ("the", "'s"):
        words = [Word(short, (*links, *first.links)), *rest]
    else:
        words = [*german_words(german, links), *phrase.german]
    return Phrase(
        [*source, *phrase.english],
        words,
        plural=phrase.plural,
        gender=phrase.gender,
        definite=phrase.definite,
        tail=phrase.tail,
        key=phrase.key,
        features=phrase.features,
        plain=phrase.plain,
    )
