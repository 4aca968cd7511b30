"""Labels of the built-in corpus: the type of a sentence, the part of speech of each word, the words of its translation.

They come from the grammar's own tables. Where an English word has two parts of speech ("order", "that", "her"), the
German words that the grammar links to it and the next word decide, so the tags hold more than a list of words does.
The tags are those of Universal Dependencies (de Marneffe et al. 2021).
"""

from functools import cache

from dragoman.pipelines.corpus.phrasebook.adjectives import ADJECTIVES
from dragoman.pipelines.corpus.phrasebook.function_words import (
    FREQUENCIES,
    HABITS,
    MANNERS,
    PRONOUNS,
    SPANS,
    SUBORDINATORS,
    TENS,
    UNITS,
    WEEKDAYS,
)
from dragoman.pipelines.corpus.phrasebook.nouns import NOUNS
from dragoman.pipelines.corpus.phrasebook.places import NAMES, PLACE_ROWS, SWITZERLAND, TOWNS
from dragoman.pipelines.corpus.phrasebook.sentences import Pair
from dragoman.pipelines.corpus.phrasebook.verb_table import FRAMES, SPECIAL
from dragoman.pipelines.corpus.phrasebook.words import MARKS

CLOSED = {
    "DET": "a an the this these every some all many no which",
    "PRON": "who whom whose what it them us me him",
    "ADP": "in on at to of for with without about by into onto from after behind beside under than as near",
    "ADV": "very too how why where there here outside upstairs now today yesterday tomorrow soon later already just "
    "finally ago up off down back away along home never more most together",
    "AUX": "cannot is are was were be been am do does did will can must may should would",
    "CCONJ": "and but",
    "SCONJ": "whether that",
    "PART": "not 's",
    "INTJ": "please",
    "ADJ": "last next asleep dangerous late warm",
    "VERB": "want wants wanted like",
    "NOUN": "o'clock euros years part care order",
}
OPEN_QUESTIONS = frozenset({"who", "whom", "what", "which", "how", "where", "when", "why", "with", "for"})


def sentence_type(pair: Pair) -> str:
    """Returns statement, yes-no-question, open-question or command."""
    words = [word.text for word in pair.source]
    if words[-1] == "?":
        asked = words[0] in OPEN_QUESTIONS or words[1] in ("whom", "what", "which")
        return "open-question" if asked else "yes-no-question"
    return "command" if words[-1] == "!" or "please" in words else "statement"


def parts_of_speech(pair: Pair) -> list[str]:
    """Returns the tag of each English word, in the order of `pair.source`."""
    german: dict[int, list[str]] = {}
    for place, word in enumerate(pair.target):
        for link in word.links:  # German writes nouns with a capital, and the first word of an imperative
            german.setdefault(id(link), []).append(word.text if place else word.text.lower())
    texts = [word.text for word in pair.source]
    return [_tag(texts, place, german.get(id(word), [])) for place, word in enumerate(pair.source)]


def _tag(texts: list[str], place: int, german: list[str]) -> str:
    """Returns the tag of one word by its candidates, the next words, and the German words linked to it."""
    word, following = texts[place], texts[place + 1] if place + 1 < len(texts) else ""
    found, after = candidates().get(word, frozenset()), candidates().get(following, frozenset())
    if word == "to":
        return "PART" if "VERB" in after or following in ("be", "have") else "ADP"
    if word == "that":
        return "SCONJ" if "dass" in german else "PRON"
    if word == "her":
        possessive = any(one.startswith("ihr") for one in german) and after & {"NOUN", "ADJ", "ADV"}
        return "DET" if possessive else "PRON"
    if word == "there":
        return "PRON" if "es" in german else "ADV"
    if word in ("have", "has", "had"):
        return "AUX" if _helps(texts, place) else "VERB"
    if word in SUBORDINATORS:
        return "SCONJ" if SUBORDINATORS[word][0] in german else "ADV" if word == "when" else "ADP"
    if found >= {"NOUN", "VERB"}:
        return "NOUN" if "um" in german or any(one[:1].isupper() for one in german) else "VERB"
    if found >= {"ADJ", "VERB"}:
        return "ADJ" if any(one.startswith(stem) for one in german for stem in stems()[word]) else "VERB"
    if found:
        return min(found)
    return "NUM" if "-" in word else "X"


def _helps(texts: list[str], place: int) -> bool:
    """Returns True if a form of "have" is an auxiliary: a verb or "to" follows, or it begins a question."""
    for word in texts[place + 1 :]:
        kinds = candidates().get(word, frozenset())
        if "VERB" in kinds or word in ("to", "been", "had"):
            return True
        if not kinds <= {"ADV", "PART", "PRON"}:
            return texts[-1] == "?" and place < 3
    return False


@cache
def stems() -> dict[str, tuple[str, ...]]:
    """Returns the German stems of each adjective."""
    return {one.english: (one.german, one.stem) for one in ADJECTIVES}


@cache
def candidates() -> dict[str, frozenset[str]]:
    """Returns the possible tags of every word of the grammar, except numerals of two words."""
    found: dict[str, set[str]] = {}

    def add(tag: str, *texts: str) -> None:
        for text in texts:
            for word in text.split():
                found.setdefault(word, set()).add(tag)

    for tag, words in CLOSED.items():
        add(tag, words)
    for pronoun in PRONOUNS:
        add("PRON", pronoun.english, pronoun.english_object)
        add("DET", pronoun.possessive[0])
    add("PRON", "it", "they")
    add("NUM", *UNITS.values(), *TENS.values())
    add("ADV", *(english for english, _ in (*MANNERS.values(), *FREQUENCIES)))
    add("NOUN", *(english for english, _ in SPANS), *(english.split()[-1] for english, _ in HABITS))
    add("NOUN", "week month year night day morning evening afternoon weekend summer winter")
    add("PROPN", *(english for english, _ in WEEKDAYS), SWITZERLAND[0], *(town[0] for town in TOWNS))
    add("PROPN", *(name[0] for name in NAMES))
    for noun in (*NOUNS, *(place.noun for place in PLACE_ROWS)):
        add("NOUN", noun.english, noun.english_plural)
    for adjective in ADJECTIVES:
        add("ADJ", adjective.english, *(adjective.comparative.split()[-1:]), *adjective.superlative.split()[-1:])
    for verb in (*(one for frame in FRAMES.values() for one in frame), *SPECIAL.values()):
        forms = verb.english
        if forms.base not in ("be", "have"):
            add("VERB", *(str(form).split()[0] for form in (forms.base, forms.third, forms.past, forms.participle)))
            add("VERB", forms.gerund.split()[0])
    for mark in MARKS:
        add("PUNCT", mark)
    return {word: frozenset(tags) for word, tags in found.items()}
