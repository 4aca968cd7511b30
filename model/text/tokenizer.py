"""Text to ids and back: the interface of every tokenizer, and the pair that a translation model needs.

The kinds have their own files: `subwords.py` (SentencePiece BPE and unigram), `words.py` (words and characters),
`huggingface_tokenizer.py` (those of other programs' models); `tokenizers.py` trains and loads them. `normalise.py`
prepares their texts. Ids 0 to 5 mean the same in every vocabulary.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dragoman.model.ranges import Count, ShareAboveZero, Whole

PAD, UNK, BOS, EOS, MASK, SEP = range(6)
SPECIAL: dict[str, int] = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS, "mask": MASK, "sep": SEP}
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>", "<sep>")
SUBWORDS = ("bpe", "unigram", "huggingface")  # kinds whose pieces begin with U+2581 where a word begins
UNKNOWN_SURFACE = "⁇"  # the text of an unknown id; SentencePiece's own choice

Ids: TypeAlias = NDArray[np.unsignedinteger[Any]]  # 1-D, uint16 or uint32, without BOS and EOS
Kind: TypeAlias = Literal["bpe", "unigram", "words", "characters", "huggingface"]
Stored: TypeAlias = Kind | Literal["labels"]  # kinds of files; labels are not trained as text is
LabelTask: TypeAlias = Literal["classes", "tags"]  # one label a text, or one a word


@dataclass
class TokenizerConfig:
    """The training of a tokenizer. `vocabulary` counts the special ids."""

    name: str = "bpe"
    type: Kind = "bpe"  # huggingface: that of an imported model, by same_as
    vocabulary: Whole = 10_000  # at most; a small corpus may give fewer, which is reported; 0: what fits the pairs
    joint: bool = True  # one vocabulary for both languages; false: one per side
    min_count: Count = 1  # words, characters: rarer ones become <unk>
    lowercase: bool = False  # words: lower-case the corpus and every later text
    punctuation: bool = True  # words: punctuation marks are words too; false: drop them
    segmenter: Literal["auto", "icu", "none"] = "auto"  # words: for Thai, Khmer, Chinese ...; auto: ICU if installed
    character_coverage: ShareAboveZero = 1.0  # bpe, unigram: share of the characters that must be representable
    byte_fallback: bool = False  # bpe, unigram: unknown characters as bytes instead of <unk>
    train_lines: Whole = 200_000  # lines of each side to train on, drawn from the whole corpus by the seed; 0: all
    sentinels: Whole = 0  # bpe, unigram: special pieces <extra_id_0> ... for loader.denoise=spans; part of `vocabulary`
    same_as: str | None = None  # shards or a bundle whose tokenizer to use; null: train one


class Tokenizer(ABC):
    """A vocabulary, and conversion to and from its ids."""

    type: Stored
    vocabulary: int  # number of ids, with special ones
    sentinels: Sequence[int] = ()  # ids that stand for spans (T5), in their order; no text has them

    @property
    def dtype(self) -> np.dtype[Any]:
        """Returns the smallest little-endian unsigned type that holds every id: `<u2`, or `<u4` above 65,536."""
        return np.dtype("<u2") if self.vocabulary <= 1 << 16 else np.dtype("<u4")

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Returns the ids of each text, without BOS and EOS; an empty text gives an empty array."""

    def encode_after_space(self, texts: Sequence[str]) -> list[Ids]:
        """Returns the ids of texts that stand after a space in their line, where a vocabulary tells them apart."""
        return self.encode(texts)

    @abstractmethod
    def decode(self, ids: Sequence[Sequence[int] | NDArray[Any]]) -> list[str]:
        """Returns the text of each row; skips pad, bos, eos, mask and sep; unknown ids become U+2047."""

    @abstractmethod
    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        """Returns the written form of each id, one to one, for plots and alignments."""

    @abstractmethod
    def unknown(self, text: str) -> list[str]:
        """Returns the parts of the text whose ids are UNK, in order."""

    @abstractmethod
    def serialise(self) -> bytes:
        """Returns the whole tokenizer as the bytes of its file; equal tokenizers give equal bytes."""

    def save(self, path: Path) -> None:
        """Writes the tokenizer's file."""
        path.write_bytes(self.serialise())

    @classmethod
    @abstractmethod
    def deserialise(cls, data: bytes, where: str) -> "Tokenizer":
        """Makes the tokenizer from `serialise`'s bytes; `where` names the file in the UserError for invalid bytes."""


@dataclass
class TokenizerPair:
    """The tokenizers of the two sides; the same object twice if the vocabulary is joint. They may differ in kind."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    @property
    def one_vocabulary(self) -> bool:
        """Returns True if an id means the same piece on both sides, even where the sides cut text otherwise."""
        sizes = self.source.vocabulary, self.target.vocabulary
        return self.joint or (
            sizes[0] == sizes[1] and self.source.pieces(range(sizes[0])) == self.target.pieces(range(sizes[1]))
        )

    def _files(self) -> dict[str, tuple[str, Tokenizer]]:
        """Returns file name -> (side, tokenizer)."""
        first, second = _suffix(self.source.type), _suffix(self.target.type)
        if self.joint:
            return {f"tokenizer{first}": ("both", self.source)}
        return {f"source{first}": ("source", self.source), f"target{second}": ("target", self.target)}

    def save(self, directory: Path) -> list[str]:
        """Writes the pair's files into `directory`, which must exist; returns their names."""
        for name, (_, tokenizer) in self._files().items():
            tokenizer.save(directory / name)
        return list(self._files())

    def describe(self) -> dict[str, Any]:
        """Returns the record for a manifest or a bundle, which `tokenizer_files.load_pair` reads back."""
        files = [
            {
                "side": side,
                "file": name,
                "sha256": hashlib.sha256(tokenizer.serialise()).hexdigest(),
                "vocabulary": tokenizer.vocabulary,
                **({} if tokenizer.type == self.source.type else {"type": tokenizer.type}),
            }
            for name, (side, tokenizer) in self._files().items()
        ]
        return {"type": self.source.type, "joint": self.joint, "files": files, "special": SPECIAL}


def without_surrogates(text: str) -> str:
    """Replaces lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def canonical_json(values: Any) -> bytes:
    """Returns JSON with a unique form for everything, for files whose bytes are compared."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def _suffix(kind: str) -> str:
    return ".model" if kind in ("bpe", "unigram") else ".json"
