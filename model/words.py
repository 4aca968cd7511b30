"""Whole words and single characters as vocabularies: the classical baselines, stored as readable JSON."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError
from model.tokenizer import (
    SPECIAL,
    SPECIAL_PIECES,
    UNK,
    UNKNOWN_SURFACE,
    Ids,
    Kind,
    Tokenizer,
    TokenizerConfig,
    canonical_json,
)

# A word keeps its inner hyphens, apostrophes, full stops and commas: "can't", "well-known", "3.14", "U.S".
WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")
CLOSING = frozenset(".,;:!?%)]}»…’”")  # no space before
OPENING = frozenset("([{«¿¡„“‚$€£#@")  # no space after


class _TableTokenizer(Tokenizer):
    """Units looked up in a table; `split` and `join` are what the two kinds differ in."""

    type: Kind

    def __init__(self, pieces: Sequence[str]) -> None:
        self.table = {piece: number for number, piece in enumerate(pieces)}
        self.written = list(pieces)
        self.vocabulary = len(self.written)
        for piece in SPECIAL_PIECES:  # text that reads "<s>" is text
            del self.table[piece]

    @staticmethod
    def split(text: str) -> Sequence[str]:
        raise NotImplementedError

    @staticmethod
    def join(units: Iterable[str]) -> str:
        raise NotImplementedError

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        find, dtype = self.table.get, self.dtype
        return [np.asarray([find(unit, UNK) for unit in self.split(text)], dtype=dtype) for text in texts]

    def decode(self, ids: Sequence[Sequence[int] | NDArray[Any]]) -> list[str]:
        return [self.join(self._surfaces(row)) for row in ids]

    def _surfaces(self, row: Sequence[int] | NDArray[Any]) -> list[str]:
        hidden = len(SPECIAL)
        return [UNKNOWN_SURFACE if i == UNK else self.written[i] for i in map(int, row) if i == UNK or i >= hidden]

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        return [self.written[int(i)] for i in ids]

    def serialise(self) -> bytes:
        return canonical_json({"format_version": 1, "type": self.type, "pieces": self.written}) + b"\n"

    @classmethod
    def _parse(cls, data: bytes, where: str) -> list[str]:
        try:
            values = json.loads(data)
            pieces, kind = values["pieces"], values["type"]
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{where}: not a tokenizer file of type {cls.type}") from None
        if kind != cls.type or not isinstance(pieces, list) or tuple(pieces[:6]) != SPECIAL_PIECES:
            raise UserError(f"{where}: a tokenizer file of type {kind}, expected {cls.type}")
        if not all(isinstance(piece, str) for piece in pieces) or len(set(pieces)) != len(pieces):
            raise UserError(f"{where}: its pieces must be different texts")
        return pieces


class WordTokenizer(_TableTokenizer):
    """Words and punctuation marks. Joining again is typographic guesswork: "( a , b )" reads "(a, b)"."""

    type: Kind = "words"

    @staticmethod
    def split(text: str) -> Sequence[str]:
        return WORD.findall(text)

    @staticmethod
    def join(units: Iterable[str]) -> str:
        text, space, quoted = "", False, False
        for unit in units:
            closing, opening = unit in CLOSING, unit in OPENING
            if unit == '"':
                closing, opening, quoted = quoted, not quoted, not quoted
            text += (" " if space and not closing else "") + unit
            space = not opening
        return text

    @classmethod
    def deserialise(cls, data: bytes, where: str) -> "WordTokenizer":
        return cls(cls._parse(data, where))


class CharacterTokenizer(_TableTokenizer):
    """Unicode code points, the space among them: decoding gives back the text itself."""

    type: Kind = "characters"

    @staticmethod
    def split(text: str) -> Sequence[str]:
        return text

    @staticmethod
    def join(units: Iterable[str]) -> str:
        return "".join(units)

    @classmethod
    def deserialise(cls, data: bytes, where: str) -> "CharacterTokenizer":
        return cls(cls._parse(data, where))


def train_words(config: TokenizerConfig, lines: Iterable[str]) -> WordTokenizer | CharacterTokenizer:
    """The most frequent units, ties in code point order, each at least `config.min_count` times in `lines`."""
    kind = WordTokenizer if config.type == "words" else CharacterTokenizer
    counts = Counter(chain.from_iterable(map(kind.split, lines)))
    for piece in SPECIAL_PIECES:
        counts.pop(piece, None)
    room = config.vocabulary - len(SPECIAL_PIECES)
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return kind([*SPECIAL_PIECES, *(unit for unit, count in ranked[:room] if count >= config.min_count)])
