"""Question words: who, whom, what, which, how many, where, when, why, how - for direct and indirect questions."""

from dragoman.pipelines.corpus.phrasebook.clauses import Clause
from dragoman.pipelines.corpus.phrasebook.draft import Draft, nouns_with
from dragoman.pipelines.corpus.phrasebook.inflection import Case
from dragoman.pipelines.corpus.phrasebook.noun_phrases import PERSON, noun_phrase, with_preposition
from dragoman.pipelines.corpus.phrasebook.predicates import Wish
from dragoman.pipelines.corpus.phrasebook.statements import make_clause, verbs_taking
from dragoman.pipelines.corpus.phrasebook.verb_table import FRAMES, Verb
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, fixed

WHO: dict[Case, tuple[str, str]] = {"nom": ("who", "wer"), "acc": ("whom", "wen"), "dat": ("whom", "wem")}
WHITHER = ("go", "drive", "run", "fly", "travel")  # "where" with these is wohin
THINGS = tuple(verb for verb in FRAMES["transitive"] if not verb.objects & {"person", "place", "animate", "animal"})
PLACED = tuple(
    verb for frame in ("intransitive", "transitive", "prepositional") for verb in FRAMES[frame] if verb.places
)
MANNERLY = tuple(
    verb
    for frame in ("intransitive", "transitive", "motion")
    for verb in FRAMES[frame]
    if set(verb.manners) - {"with", "ride", "early"}
)
KINDS = ("who", "who", "whom", "whom", "what", "what", "which", "which", "how many", "where", "where", "where to")
MORE = ("when", "when", "why", "why", "how", "with whom")


def who(case: Case) -> Phrase:
    english, german = WHO[case]
    word = Word(english)
    return Phrase([word], [Word(german, (word,))], features=frozenset({"person", "animate", "adult"}), plain=False)


def asked_clause(draft: Draft, wish: Wish) -> tuple[Phrase, Clause]:
    """The question word or phrase, and the clause in which it fills a slot."""
    while True:
        found = attempt(draft, wish, draft.pick(KINDS + MORE))
        if found is not None:
            return found


def attempt(draft: Draft, wish: Wish, kind: str) -> tuple[Phrase, Clause] | None:
    opener: Phrase
    clause: Clause | None
    if kind == "who":
        opener = who("nom")
        clause = make_clause(draft, wish, subject=opener, depth=0)
    elif kind == "whom":
        verb = draft.pick(verbs_taking("dative" if draft.chance(0.4) else "transitive", PERSON))
        opener = who(verb.case)
        clause = make_clause(draft, wish, verb=verb, gap=opener, depth=0)
    elif kind == "with whom":
        verb = draft.pick([verb for verb in verbs_taking("prepositional", PERSON) if verb.english_preposition])
        opener = with_preposition(verb.english_preposition, verb.german_preposition, who(verb.case))
        clause = make_clause(draft, wish, verb=verb, gap=opener, depth=0)
    elif kind == "what":
        opener = fixed("what", "was")
        clause = make_clause(draft, wish, verb=draft.pick(THINGS), gap=opener, depth=0)
    elif kind in ("which", "how many"):
        opener, clause = asked_noun(draft, wish, kind)
    else:
        opener, clause = asked_adverb(draft, wish, kind)
    return None if clause is None else (opener, clause)


def asked_noun(draft: Draft, wish: Wish, kind: str) -> tuple[Phrase, Clause | None]:
    """which book, how many books: as object or subject."""
    verb = draft.pick(FRAMES["transitive"])
    as_subject = draft.chance(0.35)
    nouns = nouns_with(verb.subjects if as_subject else verb.objects)
    plural = True if kind == "how many" else None
    if plural:
        nouns = tuple(noun for noun in nouns if noun.plural)
    if not nouns:
        return Phrase([], []), None
    noun = draft.pick(nouns)
    opener = noun_phrase(draft, noun, "nom" if as_subject else "acc", determiner=kind, plural=plural)
    opener.plain = False
    if as_subject:
        return opener, make_clause(draft, wish, subject=opener, verb=verb, depth=0)
    draft.combine("object", verb.key, noun.english)
    return opener, make_clause(draft, wish, verb=verb, gap=opener, depth=0)


def asked_adverb(draft: Draft, wish: Wish, kind: str) -> tuple[Phrase, Clause | None]:
    """where, where to, when, why, how."""
    if kind == "where":
        opener = fixed("where", "wo")
        verb = draft.pick(FRAMES["position"]) if draft.chance(0.3) else draft.pick(PLACED)
        return opener, open_slot(draft, wish, verb, opener, "predicate" if verb.frame == "position" else "place")
    if kind == "where to":
        opener = fixed("where", "wohin")
        verb = draft.pick([verb for verb in FRAMES["motion"] if verb.key in WHITHER])
        return opener, open_slot(draft, wish, verb, opener, "predicate")
    if kind == "how":
        opener = fixed("how", "wie")
        return opener, open_slot(draft, wish, draft.pick(MANNERLY), opener, "manner")
    opener = fixed("when", "wann") if kind == "when" else fixed("why", "warum")
    return opener, open_slot(draft, wish, None, opener, "time")


def open_slot(draft: Draft, wish: Wish, verb: Verb | None, opener: Phrase, slot: str) -> Clause | None:
    """A clause in which the question word is the place, the direction, the manner or the time."""
    return make_clause(draft, wish, verb=verb, opened=(slot, opener), depth=0)
