"""Words that a model brings back as expected: they stand in a sentence for what the model must not see.

Models here have no tokens for placeholders. What a model copies is found by asking it: names in short sentences, and
numbers whose translation is known from two sentences that differ by one word. A model that copies hardly any name has
nouns in their place, in the forms that it gives them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from dragoman.model.languages import base_language
from dragoman.services.models.loaded_model import LoadedModel

NAMES = ("Peter", "Anna", "Martin", "Maria", "Paul", "Emma", "Karl", "Julia", "Otto", "Eva", "Berlin", "Madrid")
DIGITS = ("7", "12", "35", "48", "63", "91")
# Sentences of a name or a number, by language; the numbers in words, two or more.
NAMED = {
    "en": ("I see {}.", "{} sees the man.", "The man sees {} today."),
    "de": ("Ich sehe {}.", "{} sieht den Mann.", "Der Mann sieht heute {}."),
    "fr": ("Je vois {}.", "{} voit la femme."),
    "es": ("Veo a {}.", "{} ve la casa."),
    "": ("{}.",),
}
COUNTED = {
    "en": ("I see {} men.", "The man has {} dogs."),
    "de": ("Ich sehe {} Männer.", "Der Mann hat {} Hunde."),
    "fr": ("Je vois {} hommes.",),
    "es": ("Veo {} casas.",),
    "": (),
}
NUMBERS = {
    "en": ("three", "four", "five", "seven", "two"),
    "de": ("drei", "vier", "fünf", "sieben", "zwei"),
    "fr": ("trois", "quatre", "cinq", "sept", "deux"),
    "es": ("tres", "cuatro", "cinco", "siete", "dos"),
}
NOUNS = {
    "en": ("dogs", "women", "children", "horses", "trees", "cars", "birds", "books", "soldiers"),
    "de": ("Hunde", "Frauen", "Kinder", "Pferde", "Autos", "Bäume", "Vögel", "Bücher", "Soldaten"),
    "fr": ("chiens", "femmes", "enfants", "chevaux", "arbres", "voitures", "livres", "soldats"),
    "es": ("perros", "mujeres", "niños", "caballos", "árboles", "coches", "libros", "soldados"),
}
DESCRIBED = {  # sentences of captions: the least that a model of the world knows
    "en": ("A man with {} is standing.", "A man reads {}.", "The woman looks at {}.", "A man is sitting on {}."),
    "de": ("Ein Mann mit {} steht da.", "Ein Mann liest {}.", "Die Frau betrachtet {}.", "Ein Mann sitzt auf {}."),
    "fr": ("Un homme avec des {} est debout.", "Un homme lit des {}.", "La femme regarde des {}."),
    "es": ("Un hombre con {} está de pie.", "Un hombre lee {}.", "La mujer mira {}."),
}
FEW = 4  # names: with fewer, nouns are tried
ALIKE = 3  # letters with which the forms of a noun begin
Pair = tuple[str, tuple[str, ...]]  # what stands in the source, and what it becomes: one of these forms


@dataclass(frozen=True)
class StandIns:
    """Words for nouns, and for numbers; without any, a sentence is cut around what must not change."""

    names: tuple[Pair, ...] = ()
    numbers: tuple[Pair, ...] = ()


_FOUND: WeakKeyDictionary[LoadedModel, StandIns] = WeakKeyDictionary()


def stand_ins_of(served: LoadedModel) -> StandIns:
    """Returns the stand-ins of a model; the first call asks it."""
    if served not in _FOUND:
        _FOUND[served] = find_stand_ins(
            lambda lines: [translation.text for translation in served.translate(lines, 1)], served.source
        )
    return _FOUND[served]


def find_stand_ins(translate: Callable[[list[str]], Sequence[str]], source: str) -> StandIns:
    """Returns what a model from this language brings back as expected; `translate` gives the texts of lines."""
    base = base_language(source)
    named, counted = NAMED.get(base, NAMED[""]), COUNTED.get(base, COUNTED[""])
    words = (*DIGITS, *NUMBERS.get(base, ()))
    questions = [line.format(name) for name in NAMES for line in named]
    questions += [line.format(word) for word in words for line in counted]
    word_lists = [text.split() for text in translate(questions)]
    names, numbers = word_lists[: len(NAMES) * len(named)], word_lists[len(NAMES) * len(named) :]
    kept: list[Pair] = [
        (name, (name,))
        for place, name in enumerate(NAMES)
        if all(_bare(line).count(name) == 1 for line in names[place * len(named) : (place + 1) * len(named)])
    ]
    pairs = []
    for place, word in enumerate(words if counted else ()):
        lines = numbers[place * len(counted) : (place + 1) * len(counted)]
        target = _only_difference(lines, [numbers[at * len(counted)] for at in range(len(words)) if at != place])
        if target and (target == word or word.isalpha()):
            pairs.append((word, (target,)))
    if len(kept) < FEW:
        kept += _find_nouns(translate, base)
    return StandIns(tuple(kept), tuple(pairs))


def _find_nouns(translate: Callable[[list[str]], Sequence[str]], base: str) -> list[Pair]:
    """Returns nouns in the plural, which need no article, with the forms that they have in sentences that differ by
    nothing else."""
    nouns, described = NOUNS.get(base, ()), DESCRIBED.get(base, ())
    texts = [text.split() for text in translate([line.format(noun) for line in described for noun in nouns])]
    forms: dict[str, list[str]] = {noun: [] for noun in nouns}
    for first in range(0, len(texts), max(1, len(nouns))):
        lines = texts[first : first + len(nouns)]
        for at, noun in enumerate(nouns):
            form = _only_difference([lines[at]], lines[:at] + lines[at + 1 :])
            if form.isalpha():
                forms[noun].append(form)
    return [
        (noun, tuple(dict.fromkeys(forms_of_noun)))
        for noun, forms_of_noun in forms.items()
        if len(forms_of_noun) > 1 and len({form[:ALIKE] for form in forms_of_noun}) == 1
    ]


def _bare(words: Sequence[str]) -> list[str]:
    return [word.strip(".,!?;:\"'") for word in words]


def _only_difference(lines: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> str:
    """Returns the word by which the first line differs from all others of its length, if it is in all lines once."""
    first = _bare(lines[0])
    alike = [_bare(other) for other in others if len(other) == len(first)]
    places = [[at for at, word in enumerate(first) if word != other[at]] for other in alike]
    single = {words_at[0] for words_at in places if len(words_at) == 1}
    if len(single) != 1:
        return ""
    word = first[single.pop()]
    return word if all(_bare(line).count(word) == 1 for line in lines) else ""
