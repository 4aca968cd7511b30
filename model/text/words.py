"""Whole words and single characters as vocabularies: the classical baselines, stored as readable JSON.

`letters.py` says what a word is. Words are taken with the marks between them, or alone and in lower case, as word
vectors are trained on them. A word never crosses white space, so text is split there, at the speed of C, and the rules
are asked only about what is not a word of the table as it stands ("house," or "(and").
"""

import dataclasses
import heapq
import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise, repeat
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.text import letters
from dragoman.model.text.letters import Segmenter
from dragoman.model.text.tokenizer import (
    SPECIAL,
    SPECIAL_PIECES,
    UNK,
    UNKNOWN_SURFACE,
    Ids,
    Stored,
    Tokenizer,
    TokenizerConfig,
    canonical_json,
)

VERSION = 2  # of the rules that find words, in tokenizer files
EDGES = f"_{letters.GLUE}"  # not part of a word at its ends, where marks are left out
CLOSING = frozenset(".,;:!?%)]}»…’”")  # no space before
OPENING = frozenset("([{«¿¡„“‚$€£#@")  # no space after
BLOCK_TEXTS = 512  # encoded together
BREAK = " \0 "  # between them: a character that normalised text does not hold
ELSE, NEXT = -1, -2  # not in the table as it stands; the next text
logger = logging.getLogger(__name__)
CACHED_STRINGS, CACHED_LETTERS = 200_000, 40  # strings between spaces whose ids are kept, and the longest kept one


@dataclass(frozen=True)
class WordRules:
    """Rules that find the words of a text."""

    lowercase: bool = False
    punctuation: bool = True  # marks are words too; false: they are left out, and "_so_" is "so"
    segmenter: Segmenter = "none"  # of scripts without blanks
    language: str = ""  # determines the lower case if it is not Unicode's default: see `letters.case_language`

    def fold_case(self, text: str) -> str:
        """Returns the text in the letter case that words have."""
        return letters.fold_case(text, self.language) if self.lowercase else text

    def split(self, text: str) -> list[str]:
        """Returns the words of folded text, in order."""
        words = (letters.WORD_OR_MARK if self.punctuation else letters.ONLY_WORD).findall(text)
        if not text.isascii():
            words = letters.segment(words, self.segmenter)
        return words if self.punctuation else [stripped for word in words if (stripped := word.strip(EDGES))]

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Every word of all texts with its number; the texts are in memory at once."""
        counts: Counter[str] = Counter()
        for string, number in Counter(self.fold_case("\n".join(texts)).split()).items():
            if letters.is_plain_word(string):
                counts[string] += number
            else:
                for word in self.split(string):
                    counts[word] += number
        return counts


class TableTokenizer(Tokenizer):
    """Units looked up in a table; how text is split and joined is what its kinds differ in."""

    type: Stored

    def __init__(self, pieces: Sequence[str]) -> None:
        self.table = {piece: number for number, piece in enumerate(pieces)}
        self.written = list(pieces)
        self.vocabulary = len(self.written)
        for piece in SPECIAL_PIECES:  # text that reads "<s>" is text
            del self.table[piece]

    def split(self, text: str) -> Sequence[str]:
        """The units of a text as the vocabulary writes them, known or not."""
        raise NotImplementedError

    @staticmethod
    def join(units: Iterable[str]) -> str:
        raise NotImplementedError

    def unknown(self, text: str) -> list[str]:
        return [unit for unit in self.split(text) if unit not in self.table]

    def decode(self, ids: Sequence[Sequence[int] | NDArray[Any]]) -> list[str]:
        return [self.join(self.surfaces(row)) for row in ids]

    def surfaces(self, row: Sequence[int] | NDArray[Any]) -> list[str]:
        """Returns the written form of each unit of a row, without special ones."""
        hidden = len(SPECIAL)
        return [UNKNOWN_SURFACE if i == UNK else self.written[i] for i in map(int, row) if i == UNK or i >= hidden]

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        return [self.written[int(i)] for i in ids]

    def _settings(self) -> dict[str, Any]:
        """Returns the content of the file besides the pieces."""
        return {}

    def serialise(self) -> bytes:
        values = {"format_version": 1, "type": self.type, **self._settings(), "pieces": self.written}
        return canonical_json(values) + b"\n"

    @classmethod
    def parse(cls, data: bytes, where: str) -> tuple[list[str], dict[str, Any]]:
        """The pieces, and all of the file."""
        try:
            values = json.loads(data)
            pieces, kind = values["pieces"], values["type"]
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{where}: not a tokenizer file of type {cls.type}") from None
        if kind != cls.type or not isinstance(pieces, list) or tuple(pieces[:6]) != SPECIAL_PIECES:
            raise UserError(f"{where}: a tokenizer file of type {kind}, expected {cls.type}")
        if not all(isinstance(piece, str) for piece in pieces) or len(set(pieces)) != len(pieces):
            raise UserError(f"{where}: its pieces must be different texts")
        return pieces, values


class WordTokenizer(TableTokenizer):
    """Words and punctuation marks. Joining again is typographic guesswork: "( a , b )" reads "(a, b)"."""

    type: Stored = "words"

    def __init__(self, pieces: Sequence[str], rules: WordRules | None = None) -> None:
        super().__init__(pieces)
        self.rules = rules or WordRules()

    def split(self, text: str) -> list[str]:
        """Returns the words of a text as the vocabulary writes them, known or not.

        A string between two blanks that is a word of the vocabulary is one word, however the segmenter would cut it.
        """
        strings = self.rules.fold_case(text).split()
        return [
            word for string in strings for word in ((string,) if string in self.table else self.rules.split(string))
        ]

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        rows: list[Ids] = []
        for first in range(0, len(texts), BLOCK_TEXTS):
            block = texts[first : first + BLOCK_TEXTS]
            joined = BREAK.join(block)
            if joined.count("\0") == len(block) - 1:
                rows += self._encode_strings(self.rules.fold_case(joined).split())
            else:  # the sign for the next text is in a text itself
                find = self.table.get
                rows += [np.array([find(word, UNK) for word in self.split(text)], dtype=self.dtype) for text in block]
        return rows

    @cached_property
    def _known(self) -> dict[str, tuple[int, ...]]:
        """Strings between spaces that are not just a word of the table -> their ids."""
        return {"\0": (NEXT,)}

    def _encode_strings(self, strings: list[str]) -> list[Ids]:
        """The ids of texts one after another, a NUL between them."""
        ids = np.fromiter(map(self.table.get, strings, repeat(ELSE)), np.int64, len(strings))
        rest = np.flatnonzero(ids == ELSE)
        string_ids = [self._several(strings[place]) for place in rest.tolist()]
        widths = np.ones(len(ids), np.int64)
        widths[rest] = list(map(len, string_ids))
        ends = np.cumsum(widths)
        kept = np.ones(int(ends[-1]) if len(ends) else 0, bool)  # (all ids,) those that the table gave
        several = np.fromiter(chain.from_iterable(string_ids), np.int64)
        kept[np.repeat(ends[rest] - widths[rest], widths[rest]) + _within(widths[rest])] = False
        everything = np.empty(len(kept), np.int64)
        everything[kept], everything[~kept] = ids[ids != ELSE], several
        breaks = [-1, *np.flatnonzero(everything == NEXT).tolist(), len(everything)]
        packed = everything.astype(self.dtype)
        return [packed[before + 1 : after] for before, after in pairwise(breaks)]

    def _several(self, string: str) -> tuple[int, ...]:
        ids = self._known.get(string)
        if ids is None:
            ids = tuple(self.table.get(word, UNK) for word in self.rules.split(string))
            if len(string) <= CACHED_LETTERS:
                if len(self._known) >= CACHED_STRINGS:
                    self._known.clear()
                    self._known["\0"] = (NEXT,)
                self._known[string] = ids
        return ids

    def _settings(self) -> dict[str, Any]:
        rules = self.rules
        settings = {"lowercase": rules.lowercase, "punctuation": rules.punctuation, "segmenter": rules.segmenter}
        language = {"language": rules.language} if rules.language else {}
        return {**settings, "words": VERSION, **language}

    @staticmethod
    def join(units: Iterable[str]) -> str:
        text, space, quoted = "", False, False
        for unit in units:
            closing, opening = unit in CLOSING, unit in OPENING
            if unit == '"':
                closing, opening, quoted = quoted, not quoted, not quoted
            elif text and not (text[-1] + unit).isascii() and unit:
                closing = closing or (letters.is_blankless(text[-1]) and letters.is_blankless(unit[0]))
            text += (" " if space and not closing else "") + unit
            space = not opening
        return text

    @classmethod
    def deserialise(cls, data: bytes, where: str) -> "WordTokenizer":
        pieces, values = cls.parse(data, where)
        if (version := values.get("words")) != VERSION:
            raise UserError(f"{where}: words={version}: made by another version; shard again, or train again")
        keys = ("lowercase", False), ("punctuation", True), ("segmenter", "none"), ("language", "")
        rules = WordRules(*(values.get(key, default) for key, default in keys))
        if not isinstance(rules.lowercase, bool) or not isinstance(rules.punctuation, bool):
            raise UserError(f"{where}: lowercase and punctuation must be true or false")
        if rules.segmenter not in get_args(Segmenter):
            raise UserError(f"{where}: segmenter={rules.segmenter}: made by a newer version")
        if rules.language and rules.language not in letters.CASED_APART:
            raise UserError(f"{where}: language={rules.language!r}: made by a newer version")
        letters.check_segmenter(rules.segmenter, where)
        return cls(pieces, rules)


def _within(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 .. width - 1 for each width, one after another."""
    starts = np.cumsum(widths) - widths
    return np.arange(int(widths.sum())) - np.repeat(starts, widths)


class CharacterTokenizer(TableTokenizer):
    """Unicode code points, the space among them: decoding gives back the text itself."""

    type: Stored = "characters"

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        find, dtype = self.table.get, self.dtype
        return [np.array([find(unit, UNK) for unit in text], dtype=dtype) for text in texts]

    def split(self, text: str) -> str:
        return text

    @staticmethod
    def join(units: Iterable[str]) -> str:
        return "".join(units)

    @classmethod
    def deserialise(cls, data: bytes, where: str) -> "CharacterTokenizer":
        return cls(cls.parse(data, where)[0])


def rules_of(config: TokenizerConfig, language: str = "") -> WordRules:
    """Returns the rules for the words of a word tokenizer, for text in a language."""
    segmenter = ("icu" if letters.has_icu() else "none") if config.segmenter == "auto" else config.segmenter
    folded = letters.case_language(language) if config.lowercase and language else ""
    return WordRules(config.lowercase, config.punctuation, segmenter, language=folded)


def count_units(config: TokenizerConfig, texts: Iterable[str], language: str = "") -> Counter[str]:
    """The units (words or characters) of texts that are in memory at once, with their numbers."""
    if config.type == "words":
        return rules_of(config, language).count(texts)
    return Counter(chain.from_iterable(texts))


def most_frequent(
    config: TokenizerConfig, counts: Iterable[tuple[str, int]], language: str = ""
) -> WordTokenizer | CharacterTokenizer:
    """The most frequent units, ties in code point order, each at least `config.min_count` times.

    `counts` holds every unit once and may be a stream: memory holds `config.vocabulary` entries.
    """
    room = config.vocabulary - len(SPECIAL_PIECES)
    enough = (entry for entry in counts if entry[1] >= config.min_count and entry[0] not in SPECIAL_PIECES)
    ranked = heapq.nsmallest(room, enough, key=lambda entry: (-entry[1], entry[0]))
    if not ranked:
        raise UserError(f"tokenizer.min_count={config.min_count}: nothing in the text is that frequent")
    pieces = [*SPECIAL_PIECES, *(unit for unit, _ in ranked)]
    if config.type == "characters":
        return CharacterTokenizer(pieces)
    rules = rules_of(config, language)
    if not any(map(letters.is_blankless, set("".join(pieces)))):
        rules = dataclasses.replace(rules, segmenter="none")  # so that whoever loads it does not need ICU
    elif config.segmenter == "auto" and rules.segmenter == "none":
        logger.warning(
            "tokenizer.segmenter=auto: the text has a script without blanks between words, and ICU is not installed; "
            "what stands between two blanks counts as one word (pip install icu4py; or tokenizer.segmenter=none)"
        )
    return WordTokenizer(pieces, rules)
