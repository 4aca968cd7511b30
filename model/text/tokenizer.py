"""Text to ids and back: what every tokenizer offers, the pair that a translation model needs, and how pairs are made.

The kinds stand in their own files: `subwords.py` (SentencePiece BPE and unigram), `words.py` (words and characters).
Texts are expected as `model.text.normalise` leaves them. Ids 0 to 5 mean the same in every vocabulary.
"""

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError, unknown

PAD, UNK, BOS, EOS, MASK, SEP = range(6)
SPECIAL: dict[str, int] = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS, "mask": MASK, "sep": SEP}
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>", "<sep>")
UNKNOWN_SURFACE = "⁇"  # what an unknown id is written as; SentencePiece's own choice

Ids: TypeAlias = NDArray[np.unsignedinteger[Any]]  # 1-D, uint16 or uint32, without BOS and EOS
Kind: TypeAlias = Literal["bpe", "unigram", "words", "characters"]
logger = logging.getLogger(__name__)


@dataclass
class TokenizerConfig:
    """How a tokenizer is trained. `vocabulary` counts the special ids."""

    name: str = "bpe"
    type: Kind = "bpe"
    vocabulary: int = 10_000  # at most; a small corpus may give less, which is said
    joint: bool = True  # one vocabulary for both languages; false: one a side
    min_count: int = 1  # words, characters: rarer ones become <unk>
    lowercase: bool = False  # words: in lower case, in the corpus as in every later text
    punctuation: bool = True  # words: marks are words too; false: they are left out
    character_coverage: float = 1.0  # bpe, unigram: share of the characters that must be representable
    byte_fallback: bool = False  # bpe, unigram: unknown characters as bytes instead of <unk>
    train_lines: int = 200_000  # lines of each side to train on, drawn from the whole corpus by the seed; 0: all


class Tokenizer(ABC):
    """A vocabulary and the way into and out of it."""

    type: Kind
    vocabulary: int  # number of ids, specials included

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest little-endian unsigned type that holds every id: `<u2`, or `<u4` above 65,536."""
        return np.dtype("<u2") if self.vocabulary <= 1 << 16 else np.dtype("<u4")

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each text, without BOS and EOS; an empty text gives an empty array."""

    @abstractmethod
    def decode(self, ids: Sequence[Sequence[int] | NDArray[Any]]) -> list[str]:
        """The text of each row; pad, bos, eos, mask and sep are left out, unknown ids read as U+2047."""

    @abstractmethod
    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        """The written form of each id, one to one: what a plot's axis or an alignment shows."""

    @abstractmethod
    def serialise(self) -> bytes:
        """The whole tokenizer as the bytes of its file; equal tokenizers give equal bytes."""

    def sample(self, text: str, rng: np.random.Generator, strength: float = 0.1) -> Ids:
        """One segmentation drawn at random: regularisation for training. Words and characters have only one."""
        return self.encode([text])[0]

    def save(self, path: Path) -> None:
        """Write the tokenizer's file."""
        path.write_bytes(self.serialise())

    @classmethod
    @abstractmethod
    def deserialise(cls, data: bytes, where: str) -> "Tokenizer":
        """The tokenizer of `serialise`'s bytes; `where` names the file in the UserError for bytes that are none."""


@dataclass
class TokenizerPair:
    """The tokenizers of the two sides; the same object twice where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    def _files(self) -> dict[str, tuple[str, Tokenizer]]:
        """File name -> (side, tokenizer)."""
        suffix = _suffix(self.source.type)
        if self.joint:
            return {f"tokenizer{suffix}": ("both", self.source)}
        return {f"source{suffix}": ("source", self.source), f"target{suffix}": ("target", self.target)}

    def save(self, directory: Path) -> list[str]:
        """Write the pair's files into `directory`, which must exist; their names."""
        for name, (_, tokenizer) in self._files().items():
            tokenizer.save(directory / name)
        return list(self._files())

    def describe(self) -> dict[str, Any]:
        """The record that stands in a manifest or a bundle, and that `load_pair` reads back."""
        files = [
            {
                "side": side,
                "file": name,
                "sha256": hashlib.sha256(tokenizer.serialise()).hexdigest(),
                "vocabulary": tokenizer.vocabulary,
            }
            for name, (side, tokenizer) in self._files().items()
        ]
        return {"type": self.source.type, "joint": self.joint, "files": files, "special": dict(SPECIAL)}


def load(path: Path, kind: str) -> Tokenizer:
    """The tokenizer in `path`.

    Raises:
        UserError: no such file, an unknown kind, or a file that is not of this kind.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such tokenizer file")
    return _class_of(kind).deserialise(path.read_bytes(), str(path))


def load_pair(directory: Path, record: Mapping[str, Any]) -> TokenizerPair:
    """The pair that `TokenizerPair.describe` recorded, each file checked against its sha256.

    Raises:
        UserError: a file is missing or is not the recorded one, or the record names special ids of another format.
    """
    if dict(record["special"]) != SPECIAL:
        raise UserError(f"{directory}: the tokenizer's special ids are {record['special']}, ours are {SPECIAL}")
    sides: dict[str, Tokenizer] = {}
    for entry in record["files"]:
        path = directory / entry["file"]
        if path.parent != directory:
            raise UserError(f"{directory}: tokenizer file {entry['file']!r} lies outside of the directory")
        if not path.is_file():
            raise UserError(f"{path}: no such tokenizer file")
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise UserError(f"{path}: its sha256 is not the recorded one; the file was changed or replaced")
        sides[entry["side"]] = _class_of(record["type"]).deserialise(data, str(path))
    if "both" in sides:
        return TokenizerPair(sides["both"], sides["both"])
    return TokenizerPair(sides["source"], sides["target"])


def train_pair(config: TokenizerConfig, sources: Iterable[str], targets: Iterable[str], seed: int = 1) -> TokenizerPair:
    """Train on normalised lines. The same lines in the same order, config and seed give the same bytes.

    Raises:
        UserError: no text to train on, or a vocabulary too small for the characters of the text.
    """
    check_config(config)
    first = draw_lines(sources, config.train_lines, seed)
    second = draw_lines(targets, config.train_lines, seed + 1)
    if config.joint:
        both = train(config, [*first, *second])
        return TokenizerPair(both, both)
    return TokenizerPair(train(config, first), train(config, second))


def check_config(config: TokenizerConfig) -> None:
    """Refuse what no text could make good.

    Raises:
        UserError: a vocabulary without room, or rules for words where there are none.
    """
    if config.vocabulary <= len(SPECIAL):
        raise UserError(f"tokenizer.vocabulary={config.vocabulary}: the special ids alone need {len(SPECIAL)}")
    if config.type != "words" and (config.lowercase or not config.punctuation):
        key = "lowercase=true" if config.lowercase else "punctuation=false"
        raise UserError(f"tokenizer.{key}: for tokenizer.type=words only, not {config.type}")


def train(config: TokenizerConfig, lines: list[str]) -> Tokenizer:
    """One tokenizer of the config's type, trained on all `lines`."""
    if not any(line.strip() for line in lines):
        raise UserError("tokenizer: there is no text to train on; every line is empty or was filtered out")
    trained: Tokenizer
    if config.type in ("bpe", "unigram"):
        from model.text.subwords import train_subwords

        trained = train_subwords(config, lines)
    else:
        from model.text.words import train_words

        trained = train_words(config, lines)
    if trained.vocabulary < config.vocabulary and config.type in ("bpe", "unigram"):
        logger.warning(
            f"tokenizer.vocabulary={config.vocabulary}: the text has only {trained.vocabulary} pieces; "
            f"the vocabulary is {trained.vocabulary}"
        )
    return trained


def draw_lines(lines: Iterable[str], most: int, seed: int) -> list[str]:
    """At most `most` (0: all) of the non-empty lines, each equally likely, in their own order; memory holds no more.

    Reservoir sampling (Vitter 1985, Algorithm R); fewer lines than `most` are all kept.
    """
    rng = Random(seed)
    kept: list[tuple[int, str]] = []
    seen = 0
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        seen += 1
        if not most or len(kept) < most:
            kept.append((number, line))
        elif (place := rng.randrange(seen)) < most:
            kept[place] = (number, line)
    return [line for _, line in sorted(kept)]


def without_surrogates(text: str) -> str:
    """Lone surrogates, which UTF-8 cannot write, as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def canonical_json(values: Any) -> bytes:
    """JSON with one way to write everything, for files whose bytes are compared."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def _suffix(kind: str) -> str:
    return ".model" if kind in ("bpe", "unigram") else ".json"


def _class_of(kind: str) -> type[Tokenizer]:
    if kind in ("bpe", "unigram"):
        from model.text.subwords import BpeTokenizer, UnigramTokenizer

        return BpeTokenizer if kind == "bpe" else UnigramTokenizer
    if kind in ("words", "characters"):
        from model.text.words import CharacterTokenizer, WordTokenizer

        return WordTokenizer if kind == "words" else CharacterTokenizer
    raise unknown("tokenizer.type", kind, ("bpe", "unigram", "words", "characters"))
