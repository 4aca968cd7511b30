"""Modifiers: other forms of the training text, so that a network meets upper case, typos or emoji before its users do.

Which records a modifier changes, and how, depends only on (seed, epoch, record, modifier): on no window, rank or start.
The ids of a chosen record are decoded, changed as text and encoded again. A record with unknown characters stays as it
is, because its ids do not hold its text. Tags before a source sentence stay. The names follow OpusTrainer (Bogoychev et
al. 2023) and Mozilla's use of it.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tags import split_tags
from dragoman.model.text.tokenizer import EOS, UNK, Tokenizer
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.corpus.plan.plan import uniform
from dragoman.pipelines.loaders.window import Window, philox
from dragoman.pipelines.settings import ModifiersConfig, Shares

KEY = "loader.modifiers"
OF_MODIFIERS = 4  # last number of the keys of random draws
STOP = re.compile(r"\s*[.!?…。！？]+$")
WORD = re.compile(r"\w[\w.,:/@-]*\w|\w")
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEAR = {row[i]: row[i - 1 : i] + row[i + 1 : i + 2] for row in KEYBOARD for i in range(len(row))}  # neighbouring keys
LETTERS_A_TYPO = 10
SAMPLED_CHUNKS, SAMPLED = 8, 128  # and records of each: to learn how many tokens a modifier adds
EMOJI = tuple("😀😂🙂😍😢😡👍👎🙏🎉🔥❤⭐☀☕✅❌⚠")
PLACEHOLDERS = ("{name}", "{0}", "%s", "%1$s", "${user}", "{{count}}", "__VAR__", "$PRICE", "#42", "@user", "foo.txt")
SIGNS = "#$%&*+-/<=>@^_|~°§±×÷•→←■□◆○●★☆"

Pair = tuple[str, str]


class Draws:
    """Random numbers of one record and one modifier."""

    def __init__(self, seed: int, epoch: int, record: int, number: int) -> None:
        self._bits = philox(seed, epoch, record, 16 * number + OF_MODIFIERS)

    def below(self, count: int) -> int:
        """Returns a number from 0 to `count` - 1."""
        return int(self._bits.random_raw()) % count

    def of(self, choices: Sequence[str]) -> str:
        return choices[self.below(len(choices))]


def upper_case(pair: Pair, _draws: Draws, _known: Sequence[str]) -> Pair:
    """Writes both sides in capitals."""
    return pair[0].upper(), pair[1].upper()


def title_case(pair: Pair, _draws: Draws, _known: Sequence[str]) -> Pair:
    """Begins every word of both sides with a capital."""
    source, target = (" ".join(word[:1].upper() + word[1:] for word in side.split(" ")) for side in pair)
    return source, target


def no_stop(pair: Pair, _draws: Draws, _known: Sequence[str]) -> Pair:
    """Leaves out the marks at the end, if both sides have some."""
    source, target = (STOP.sub("", side) for side in pair)
    return (source, target) if source != pair[0] and target != pair[1] else pair


def typos(pair: Pair, draws: Draws, _known: Sequence[str]) -> Pair:
    """Mistypes about one source letter in ten, at least one: left out, doubled, swapped, or a neighbouring key's."""
    letters = list(pair[0])
    places = [place for place, letter in enumerate(letters) if letter.isalpha()]
    for _ in range(max(1, len(places) // LETTERS_A_TYPO) if places else 0):
        place, kind = places[draws.below(len(places))], draws.below(4)
        letter = letters[place][:1]  # may be mistyped already
        if kind == 0 and len(places) > 1:
            letters[place] = ""
        elif kind == 1:
            letters[place] = letter + letter
        elif kind == 2 and place + 1 < len(letters) and letters[place + 1].isalpha():
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
        elif near := NEAR.get(letter.lower()):
            key = draws.of(near)
            letters[place] = key.upper() if letter.isupper() else key
    return "".join(letters), pair[1]


def noise(pair: Pair, draws: Draws, signs: Sequence[str]) -> Pair:
    """Puts the same one to six random signs before or after both sides."""
    return _beside(pair, "".join(draws.of(signs) for _ in range(1 + draws.below(6))), draws)


def emoji(pair: Pair, draws: Draws, emoji_signs: Sequence[str]) -> Pair:
    """Puts the same emoji before or after both sides."""
    return _beside(pair, draws.of(emoji_signs), draws)


def placeholders(pair: Pair, draws: Draws, words_offered: Sequence[str]) -> Pair:
    """Replaces a word that both sides have once, such as a number or a name, by the same placeholder."""
    sides = [[match[0] for match in WORD.finditer(side)] for side in pair]
    common = [word for word in sides[0] if sides[0].count(word) == sides[1].count(word) == 1]
    if not common:
        return pair
    word, other = draws.of(common), draws.of(words_offered)
    source, target = (re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _: other, side, count=1) for side in pair)
    return source, target


def terms(pair: Pair, draws: Draws, term_pairs: Sequence[str]) -> Pair:
    """Puts the translation of a term that both sides have behind it in the source, in brackets (Dinu et al. 2019).

    `term_pairs` has them so: "dog [Hund]".
    """
    both = [term_entry[:-1].rsplit(" [", 1) for term_entry in term_pairs]
    common = [
        term_entry
        for term_entry in both
        if all(_whole(words).search(side) for words, side in zip(term_entry, pair, strict=True))
    ]
    if not common:
        return pair
    term, translation = common[draws.below(len(common))]
    return _whole(term).sub(lambda match: f"{match[0]} [{translation}]", pair[0], count=1), pair[1]


@cache
def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")


def _beside(pair: Pair, what: str, draws: Draws) -> Pair:
    if draws.below(2):
        return f"{what} {pair[0]}", f"{what} {pair[1]}"
    return f"{pair[0]} {what}", f"{pair[1]} {what}"


Modifier = Callable[[Pair, Draws, Sequence[str]], Pair]
# In this order, so that capitals come last. The number of each is part of its draws' key and never changes.
MODIFIERS: dict[str, tuple[int, Modifier, Sequence[str]]] = {
    "placeholders": (1, placeholders, PLACEHOLDERS),
    "no_stop": (2, no_stop, ()),
    "typos": (3, typos, ()),
    "noise": (4, noise, SIGNS),
    "emoji": (5, emoji, EMOJI),
    "terms": (8, terms, ()),
    "title_case": (6, title_case, ()),
    "upper_case": (7, upper_case, ()),
}


def any_of(config: ModifiersConfig) -> bool:
    """Returns True if a modifier changes any record."""
    return any(getattr(config, name) for name in MODIFIERS)


def listed(config: ModifiersConfig) -> list[str]:
    """Returns each term with its translation in brackets, as `terms` takes it.

    Raises UserError: no terms, or an empty side.
    """
    glossary = config.glossary or {}
    if not glossary:
        raise UserError(f"{KEY}.terms: needs {KEY}.glossary, such as {{dog: Hund}}")
    for term, translation in glossary.items():
        if not term.strip() or not translation.strip():
            raise UserError(f"{KEY}.glossary: {term!r}: {translation!r} is not a term and its translation")
    return [f"{term} [{translation}]" for term, translation in glossary.items()]


class Modify:
    """Applies the modifiers to windows of a split."""

    def __init__(self, reader: ShardReader, config: ModifiersConfig, seed: int, shares: Shares = "records") -> None:
        """`shares`: what the shares of `config` count."""
        pair = load_pair(reader.directory, reader.manifest.tokenizer)
        for side in (pair.source, pair.target):
            if not isinstance(side, SubwordTokenizer):
                raise UserError(
                    f"{KEY}: {side.type} do not give back the text that is to be changed; take bpe or unigram"
                )
        self.sides: tuple[Tokenizer, Tokenizer] = (pair.source, pair.target)
        self.tags = frozenset(tag for part in reader.manifest.parts for tag in part.tags)
        self.seed = seed
        self.shares = {name: share for name in MODIFIERS if (share := getattr(config, name)) > 0}
        signs = {name: listed(config) if name == "terms" else MODIFIERS[name][2] for name in self.shares}
        self.known = {name: self._writable(name, each) for name, each in signs.items()}
        if shares == "tokens":
            sample = self._sample(reader)
            self.shares = {name: self._of_records(name, share, sample) for name, share in self.shares.items()}

    def __call__(self, window: Window, epochs: NDArray[np.int64]) -> Window:
        """Returns the window with some records changed.

        Args:
            epochs: (n,) how often each record was read before.
        """
        chosen = self.chosen(window.ids, epochs)
        rows = np.flatnonzero(np.logical_or.reduce(list(chosen.values())))
        if not len(rows):
            return window
        ids = [[window.source_row(row), window.target_row(row)] for row in rows.tolist()]
        readable = [not any((side == UNK).any() for side in both) for both in ids]
        rows, ids = rows[readable], [both for both, keep in zip(ids, readable, strict=True) if keep]
        texts = []
        for row, pair in zip(rows.tolist(), self._texts(ids), strict=True):
            names = [name for name, marks in chosen.items() if marks[row]]
            texts.append(self.change(pair, names, int(epochs[row]), int(window.ids[row])))
        new = [
            [np.append(ids, np.asarray(EOS, ids.dtype)) for ids in tokenizer.encode([text[side] for text in texts])]
            for side, tokenizer in enumerate(self.sides)
        ]
        return window.with_rows(rows, *new)

    def _texts(self, ids: Sequence[Sequence[NDArray[Any]]]) -> list[Pair]:
        """Returns records as text; each is the ids of both sides with EOS."""
        sources, targets = (side.decode([both[at][:-1] for both in ids]) for at, side in enumerate(self.sides))
        return list(zip(sources, targets, strict=True))

    def _sample(self, reader: ShardReader) -> list[Pair]:
        """Returns some records of the whole split as text."""
        chunks = sorted({place * reader.chunks // SAMPLED_CHUNKS for place in range(SAMPLED_CHUNKS)})
        windows = [Window.of([reader.chunk(chunk)]) for chunk in chunks if reader.chunks]
        return self._texts(
            [
                [window.source_row(r), window.target_row(r)]
                for window in windows
                for r in range(len(window.ids))[:SAMPLED]
            ]
        )

    def _of_records(self, name: str, share: float, sample: Sequence[Pair]) -> float:
        """Returns the share of the records that a modifier must change for its `share` of the tokens."""
        changed = [self.change(pair, [name], 0, number) for number, pair in enumerate(sample)]
        before, after = (
            sum(len(row) for at, side in enumerate(self.sides) for row in side.encode([pair[at] for pair in pairs]))
            for pairs in (sample, changed)
        )
        return share * before / (share * before + (1 - share) * after) if share < 1 and before else share

    def chosen(self, ids: NDArray[np.int64], epochs: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
        """Returns modifier -> (n,) the records that it changes."""
        masks = {name: np.zeros(len(ids), bool) for name in self.shares}
        for epoch in np.unique(epochs).tolist():
            own = np.flatnonzero(epochs == epoch)
            for name, share in self.shares.items():
                key = int(philox(self.seed, epoch, MODIFIERS[name][0], OF_MODIFIERS).random_raw())
                masks[name][own] = uniform(ids[own].astype(np.uint64), key) < share
        return masks

    def change(self, pair: Pair, names: Sequence[str], epoch: int, record: int) -> Pair:
        """Returns the pair as the modifiers `names` change it; as it was if a side would be empty."""
        tags, source = split_tags(pair[0], self.tags)
        now = source, pair[1]
        for name in names:
            number, modifier, _ = MODIFIERS[name]
            now = modifier(now, Draws(self.seed, epoch, record, number), self.known[name])
        return (tags + now[0], now[1]) if all(side.strip() for side in now) else pair

    def _writable(self, name: str, signs: Sequence[str]) -> Sequence[str]:
        """Returns the signs of a modifier that both vocabularies can write."""
        writable = [sign for sign in signs if not any(side.unknown(sign) for side in self.sides)]
        if signs and not writable:
            raise UserError(
                f"{KEY}.{name}: the vocabulary can write none of {' '.join(signs)}; choices: shards with "
                f"tokenizer.byte_fallback=true, or {KEY}.{name}=0"
            )
        return writable
