"""Rules that are fitted to a sample of the corpus itself: words that go together, lengths, last marks, languages.

Every line is judged by what the lines of the other parity taught, so that a pair is no witness for itself.

| rule | a pair fails when |
| --- | --- |
| `wrong_side` | a side's tokens are `OTHER_SIDE` likelier on the other side: exchanged, copied or not translated |
| `language` | py3langid finds another language `FACTOR` times as probable as the side's own |
| `uneven` | the ratio of lengths is `MOST_DEVIATIONS` from the median of pairs as long |
| `cut_off` | one side ends in a sentence mark and the other in none, where the corpus has both or neither |
| `unrelated` | its words are worth less than `corpus.clean.min_match` |

`unrelated` is a dual score as of Junczys-Dowmunt (2018), of IBM Model 1 in the place of networks: the log-likelihood
ratio (nats) of the pair as a translation against two texts that chance has joined; words in both directions, and the
lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from dragoman.model.files import atomic_open
from dragoman.model.languages import base_language
from dragoman.pipelines.corpus.clean.compiled_translation import Doubles, Ints, Side, Table, fit, gains
from dragoman.pipelines.corpus.clean.identifier import identifier

LEAST_PAIRS = 1_000  # a smaller sample says nothing
ENOUGH = 40_000  # pairs from which `unrelated` is judged: fewer know too few of the words
LEAST_TOKENS = 4  # of the longer side, marks too: names, and "Ja." and "Nein." are of both languages
OTHER_SIDE = 0.5  # nats a token: names are of both languages
PREFIX = 4  # letters of a word: inflected forms are one token
FACTOR = 20.0  # how much more probable another language must be
ASKED = 0.25  # py3langid is asked about the quarter of the texts with the rarest words
MOST_DEVIATIONS = 6.0
AGREE = 0.98  # of the sample's pairs with last marks on both sides or on none: the least at which `cut_off` is judged

_UNSPACED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
_TOKEN = regex.compile(rf"{_UNSPACED}|(?:(?!{_UNSPACED})[\p{{L}}\p{{M}}])+|\p{{N}}+|[^\s\p{{L}}\p{{M}}\p{{N}}]")
_LAST_MARK = regex.compile(r"[.!?…。！？।۔؟‽:;][\s\"'”’“‟»«)\]]*$")
_BOUNDS = np.array([0, 30, 60, 120, 240])  # characters of both sides: pairs of a bin are compared
_SLACK = 10  # characters added to each side, as for `length_ratio`
_EDGES = np.linspace(-2.0, 2.0, 41)  # of the log ratio of lengths

Mask = npt.NDArray[np.bool_]


@dataclass
class Half:
    """The tables that the lines of one parity teach."""

    forth: Table
    back: Table
    belongs: Doubles  # (vocabulary,) log-probability of a token on the target side less that on the source side
    common: Doubles  # (2,) mean log-probability of a text's tokens on each side below which py3langid is asked


@dataclass
class FittedRules:
    """The tables of both halves of the sample; `half[p]` judges the lines of parity p."""

    vocabulary: list[str]
    half: list[Half]
    middle: Doubles  # (bins,) median log ratio of lengths, target to source
    spread: Doubles  # (bins,) its standard deviation, from the median deviation
    length: Doubles  # (40,) log-likelihood ratio of a log ratio of lengths, aligned against shuffled
    agree: float  # share of pairs with last marks on both sides or on none
    pairs: int  # of the sample

    @cached_property
    def _number(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.vocabulary)}

    def judge(
        self,
        sides: tuple[Sequence[str], Sequence[str]],
        parity: npt.NDArray[np.integer],
        rules: Sequence[str],
        languages: Sequence[str],
        least: float,
    ) -> dict[str, Mask]:
        """Returns rule -> (n,): the pairs that fail it; `least`: see `unrelated`."""
        masks: dict[str, Mask] = {}
        ratio, total = _lengths(sides)
        if "uneven" in rules:
            place = np.searchsorted(_BOUNDS, total, side="right") - 1
            masks["uneven"] = abs(ratio - self.middle[place]) > MOST_DEVIATIONS * self.spread[place]
        if "cut_off" in rules and self.agree >= AGREE:
            masks["cut_off"] = np.not_equal(*map(_ends_in_mark, sides))
        if {"wrong_side", "language", "unrelated"} & set(rules):
            by_words = {rule: np.zeros(len(parity), bool) for rule in ("wrong_side", "language", "unrelated")}
            length = self.length[_bin(ratio)]
            for half in (0, 1):
                rows = np.flatnonzero(parity == half)
                if len(rows):
                    texts = [[side[row] for row in rows.tolist()] for side in sides]
                    for rule, failed in self._by_words(texts, self.half[half], length[rows], languages, least).items():
                        by_words[rule][rows] = failed
            masks |= by_words
        return {rule: masks[rule] for rule in rules if rule in masks}

    def matches(self, sides: tuple[Sequence[str], Sequence[str]], parity: npt.NDArray[np.integer]) -> Doubles:
        """Returns (n,): what `unrelated` judges, the log-likelihood ratio (nats) of each pair as a translation."""
        length, is_match = self.length[_bin(_lengths(sides)[0])], np.zeros(len(parity))
        for half in (0, 1):
            rows = np.flatnonzero(parity == half)
            source, target = (encode([side[row] for row in rows.tolist()], self._number) for side in sides)
            is_match[rows] = _related(source, target, self.half[half], length[rows])
        return is_match

    def _by_words(
        self, texts: Sequence[list[str]], half: Half, length: Doubles, languages: Sequence[str], least: float
    ) -> dict[str, Mask]:
        source, target = (encode(side, self._number) for side in texts)
        belongs = -_means(source, half.belongs), _means(target, half.belongs)
        enough = np.maximum(np.diff(source.ends), np.diff(target.ends)) >= LEAST_TOKENS
        related = _related(source, target, half, length)
        foreign = np.zeros(len(length), bool)
        tables = (half.back.alone, half.forth.alone)
        for side, lines, alone, limit, language in zip(
            (source, target), texts, tables, half.common, languages, strict=True
        ):
            doubtful = np.flatnonzero((_means(side, np.log(alone)) < limit) & ~foreign)
            foreign[doubtful] = [is_foreign(lines[row], language) for row in doubtful]
        return {
            "wrong_side": enough & (np.minimum(*belongs) < -OTHER_SIDE),
            "language": foreign,
            "unrelated": (related < least) & (self.pairs >= ENOUGH),
        }


def _related(source: Side, target: Side, half: Half, length: Doubles) -> Doubles:
    return gains(source, target, half.forth) + gains(target, source, half.back) + length


def learn(source: Sequence[str], target: Sequence[str], parity: npt.NDArray[np.integer]) -> FittedRules | None:
    """Fits the rules to a sample, most of whose pairs are translations; returns None if it is too small."""
    if len(source) < LEAST_PAIRS or min(np.bincount(parity, minlength=2)) < LEAST_PAIRS // 4:
        return None
    number: dict[str, int] = {"": 0}  # any token that the sample lacks
    left, right = (encode(side, number, grow=True) for side in (source, target))
    halves = [_learn_half(left, right, np.flatnonzero(parity != half), len(number)) for half in (0, 1)]
    ratio, total = _lengths((source, target))
    place = np.searchsorted(_BOUNDS, total, side="right") - 1
    middle, spread = np.full(len(_BOUNDS), np.median(ratio)), np.full(len(_BOUNDS), np.inf)
    for bound in range(len(_BOUNDS)):
        if (place == bound).sum() >= LEAST_PAIRS // 10:
            middle[bound] = np.median(ratio[place == bound])
            spread[bound] = 1.4826 * np.median(abs(ratio[place == bound] - middle[bound])) + 0.02
    sizes = np.log([[len(line) + _SLACK for line in side] for side in (source, target)])
    apart = np.concatenate([np.roll(sizes[1], shift) - sizes[0] for shift in (37, 1_009, 5_003)])
    length = np.log(_shares(ratio)) - np.log(_shares(apart))
    agree = float(np.equal(_ends_in_mark(source), _ends_in_mark(target)).mean())
    return FittedRules(list(number), halves, middle, spread, length, agree, len(source))


def _learn_half(left: Side, right: Side, rows: Ints, vocabulary: int) -> Half:
    left, right = _take(left, rows), _take(right, rows)
    forth, back = fit(left, right, vocabulary), fit(right, left, vocabulary)
    logs = np.log(back.alone), np.log(forth.alone)
    common = np.array([np.quantile(_means(side, log), ASKED) for side, log in zip((left, right), logs, strict=True)])
    return Half(forth, back, logs[1] - logs[0], common)


def encode(lines: Sequence[str], number: dict[str, int], grow: bool = False) -> Side:
    """Returns the tokens of lines: word beginnings, numbers and marks in lower case; 0: not in `number`."""
    ids: list[int] = []
    ends = np.zeros(len(lines) + 1, np.int64)
    for place, line in enumerate(lines, 1):
        tokens = [token[:PREFIX] for token in _TOKEN.findall(line.casefold())]
        if grow:
            ids += [number.setdefault(token, len(number)) for token in tokens]
        else:
            ids += [number.get(token, 0) for token in tokens]
        ends[place] = len(ids)
    return Side(np.array(ids, np.int64), ends)


def is_foreign(text: str, language: str) -> bool:
    """Returns True if another language is `FACTOR` times as probable as `language`; a text without letters is not."""
    if not any(map(str.isalpha, text)):
        return False
    words_of: dict[str, float] = {}
    for label, probability in identifier().rank(text[:1000]):
        code = base_language(label)
        words_of[code] = words_of.get(code, 0.0) + float(probability)
    own = words_of.get(base_language(language))
    return own is not None and max(words_of.values()) >= FACTOR * own


def save(rules: FittedRules, path: Path) -> None:
    arrays: dict[str, Any] = {name: getattr(rules, name) for name in ("middle", "spread", "length", "agree", "pairs")}
    arrays["vocabulary"] = np.frombuffer("\n".join(rules.vocabulary).encode(), np.uint8)
    for half, each in enumerate(rules.half):
        arrays |= {f"{half}.belongs": each.belongs, f"{half}.common": each.common}
        for name, table in (("forth", each.forth), ("back", each.back)):
            arrays |= {f"{half}.{name}.{field}": values for field, values in table._asdict().items()}
    with atomic_open(path, durable=False) as file:
        np.savez(file, **arrays)


def load(path: Path) -> FittedRules:
    """Reads the file of `save`."""
    with np.load(path, allow_pickle=False) as arrays:
        halves = [
            Half(
                _load_table(arrays, f"{half}.forth"),
                _load_table(arrays, f"{half}.back"),
                arrays[f"{half}.belongs"],
                arrays[f"{half}.common"],
            )
            for half in (0, 1)
        ]
        words = arrays["vocabulary"].tobytes().decode().split("\n")
        lengths = arrays["middle"], arrays["spread"], arrays["length"]
        return FittedRules(words, halves, *lengths, float(arrays["agree"]), int(arrays["pairs"]))


def _load_table(arrays: Mapping[str, Any], name: str) -> Table:
    return Table(arrays[f"{name}.keys"], arrays[f"{name}.given"], arrays[f"{name}.alone"])


def _take(side: Side, rows: Ints) -> Side:
    parts = [side.ids[side.ends[row] : side.ends[row + 1]] for row in rows]
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    return Side(np.concatenate(parts), ends)


def _means(side: Side, values: Doubles) -> Doubles:
    """Returns (lines,): the mean of `values` (vocabulary,) over the tokens of each line; 0 of a line without one."""
    sums = np.concatenate([[0.0], np.cumsum(values[side.ids])])[side.ends]
    means: Doubles = np.diff(sums) / np.maximum(1, np.diff(side.ends))
    return means


def _lengths(sides: tuple[Sequence[str], Sequence[str]]) -> tuple[Doubles, Ints]:
    """Returns the log ratio of the sides' lengths, target to source, and the characters of both."""
    counts = np.array([[len(line) for line in side] for side in sides], np.int64).reshape(2, -1)
    logs = np.log(counts + _SLACK)
    return logs[1] - logs[0], counts.sum(0)


def _ends_in_mark(lines: Sequence[str]) -> Mask:
    return np.array([_LAST_MARK.search(line) is not None for line in lines], bool)


def _bin(ratio: Doubles) -> Ints:
    return np.clip(np.digitize(ratio, _EDGES) - 1, 0, len(_EDGES) - 2)


def _shares(ratio: Doubles) -> Doubles:
    counts = np.bincount(_bin(ratio), minlength=len(_EDGES) - 1).astype(float)
    smooth: Doubles = np.convolve(counts, [0.25, 0.5, 0.25], "same") + 0.5
    shares: Doubles = smooth / smooth.sum()
    return shares
