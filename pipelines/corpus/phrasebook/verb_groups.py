"""The verb and its auxiliaries: tense, modal, passive, do-support; German finite form, particle and verb cluster."""

from dataclasses import dataclass, field
from typing import Literal

from dragoman.pipelines.corpus.phrasebook.function_words import Modal
from dragoman.pipelines.corpus.phrasebook.verb_table import BE, Verb
from dragoman.pipelines.corpus.phrasebook.words import Phrase, Word, english_words

Tense = Literal["present", "past", "perfect", "future", "modal", "modal past"]
WERDEN = {"present": ("werde", "wird", "werden"), "past": ("wurde", "wurde", "wurden")}
HABEN = ("habe", "hat", "haben")
SEIN = ("bin", "ist", "sind")


@dataclass(slots=True)
class VerbGroup:
    """English: `front` (inverts with the subject: does, has, can), `modal` (wants to), `lexical` (read).

    German: `finite` without its `particle`, and the verb cluster `end` (participle, infinitive).
    """

    front: list[Word]
    modal: list[Word]
    lexical: list[Word]
    finite: Word
    particle: Word | None
    end: list[Word] = field(default_factory=list)

    @property
    def joined(self) -> Word:
        """The finite verb as it stands at the end of a clause: aufräumt."""
        if self.particle is None:
            return self.finite
        return Word(self.particle.text + self.finite.text, self.finite.links)

    @property
    def periphrastic(self) -> bool:
        """The verb itself is not finite, so that a second verb can share the auxiliary."""
        return bool(self.end)


def agree(forms: tuple[str, str, str], subject: Phrase) -> str:
    """First person singular, third person singular, plural."""
    if subject.plural:
        return forms[2]
    return forms[0] if subject.person == 1 else forms[1]


def english_be(subject: Phrase, past: bool) -> str:
    if past:
        return "were" if subject.plural else "was"
    return agree(("am", "is", "are"), subject)


def english_finite(verb: Verb, subject: Phrase, past: bool) -> str:
    if past:
        return verb.english.past
    return verb.english.third if subject.person == 3 and not subject.plural else verb.english.base


def do_form(subject: Phrase, past: bool) -> str:
    if past:
        return "did"
    return "does" if subject.person == 3 and not subject.plural else "do"


def german_finite(verb: Verb, subject: Phrase, past: bool) -> str:
    german = verb.german
    return german.preterite(subject.person, subject.plural) if past else german.present(subject.person, subject.plural)


def verb_group(
    verb: Verb,
    subject: Phrase,
    tense: Tense,
    *,
    modal: Modal | None = None,
    passive: bool = False,
    negation: Word | None = None,
    inverted: bool = False,
) -> VerbGroup:
    """The forms of both languages.

    `inverted` asks for an English auxiliary before the subject, `negation` for one before "not"; a denied "can"
    takes the negation into the auxiliary, whose word then reads "cannot".
    """
    past = tense in ("past", "modal past")
    support = inverted or negation is not None
    if tense in ("modal", "modal past"):
        assert modal is not None
        return modal_group(verb, subject, past, modal, passive, negation, support)
    if tense == "perfect":
        front = [Word("has" if subject.person == 3 and not subject.plural else "have")]
        if passive:
            be, done = Word("been"), english_words(verb.english.participle)
            end = [Word(verb.german.participle, tuple(done)), Word("worden", (be,))]
            return VerbGroup(front, [], [be, *done], Word(agree(SEIN, subject), tuple(front)), None, end)
        done = english_words(verb.english.participle)
        auxiliary = agree(SEIN if verb.german.with_sein else HABEN, subject)
        participle = Word(verb.german.participle, tuple(done))
        return VerbGroup(front, [], done, Word(auxiliary, tuple(front)), None, [participle])
    if tense == "future":
        front = [Word("will")]
        lexical, end = infinitive(verb, passive)
        return VerbGroup(front, [], lexical, Word(agree(WERDEN["present"], subject), tuple(front)), None, end)
    if passive:
        front = [Word(english_be(subject, past))]
        done = english_words(verb.english.participle)
        finite = Word(agree(WERDEN["past" if past else "present"], subject), tuple(front))
        return VerbGroup(front, [], done, finite, None, [Word(verb.german.participle, tuple(done))])
    if verb is BE:
        front = [Word(english_be(subject, past))]
        return VerbGroup(front, [], [], Word(german_finite(verb, subject, past), tuple(front)), None)
    front = [Word(do_form(subject, past))] if support else []
    lexical = english_words(verb.english.base if support else english_finite(verb, subject, past))
    links = (*front, *lexical)
    particle = Word(verb.german.particle, tuple(lexical)) if verb.german.particle else None
    return VerbGroup(front, [], lexical, Word(german_finite(verb, subject, past), links), particle)


def modal_group(
    verb: Verb, subject: Phrase, past: bool, modal: Modal, passive: bool, negation: Word | None, support: bool
) -> VerbGroup:
    """can read: kann lesen; does not want to read: will nicht lesen."""
    front: list[Word] = []
    between: list[Word] = []
    if not modal.support:
        front, between = english_words(modal.english)[:1], english_words(modal.english)[1:]
        if negation is not None and modal.english == "can":
            negation.text = "cannot"
            front = [negation]
    elif support:
        front, between = [Word(do_form(subject, past))], english_words(modal.english)
    else:
        third = subject.person == 3 and not subject.plural
        between = english_words(modal.english_past if past else modal.english_third if third else modal.english)
    lexical, end = infinitive(verb, passive)
    singular, plural = modal.german_past if past else modal.german
    finite = Word(plural if subject.plural else singular, (*front, *between))
    return VerbGroup(front, between, lexical, finite, None, end)


def infinitive(verb: Verb, passive: bool = False) -> tuple[list[Word], list[Word]]:
    """English base, German infinitive; of the passive: be read, gelesen werden."""
    if passive:
        be, done = Word("be"), english_words(verb.english.participle)
        return [be, *done], [Word(verb.german.participle, tuple(done)), Word("werden", (be,))]
    words = english_words(verb.english.base)
    return words, [Word(verb.german.joined, tuple(words))]


def infinitive_with_zu(verb: Verb, gerund: bool = False) -> tuple[list[Word], list[Word]]:
    """to tidy up: aufzuräumen; to read: zu lesen. With `gerund` the English is reading."""
    to = [] if gerund else [Word("to")]
    words = english_words(verb.english.gerund if gerund else verb.english.base)
    *zu, last = verb.german.with_zu
    if not zu:
        return [*to, *words], [Word(last, (*to, *words))]
    return [*to, *words], [Word(zu[0], tuple(to or words)), Word(last, tuple(words))]


def imperative(verb: Verb) -> tuple[list[Word], Word, Word, Word | None]:
    """English base; German verb, Sie, and particle: Räumen Sie ... auf."""
    words = english_words(verb.english.base)
    links = tuple(words)
    text = "seien" if verb is BE else verb.german.infinitive
    particle = Word(verb.german.particle, links) if verb.german.particle else None
    return words, Word(text, links), Word("Sie", links), particle
