"""A tokenizer of Hugging Face's library with our ids: WordPiece (BERT), BPE of bytes (GPT-2) or of characters (Llama).

Its file is the library's own tokenizer.json. `model/huggingface/tokenizer.py` writes it from that of an imported model:
ids in our order, no special tokens around a text, and no text that spells one. Names of ids that no text has begin
with a control character, which normalised text does not hold.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import (
    SPECIAL_PIECES,
    UNK,
    UNKNOWN_SURFACE,
    Ids,
    Stored,
    Tokenizer,
    without_surrogates,
)
from dragoman.model.text.word_table import SPACE

OURS, THEIRS = "\0", "\1"  # begin the names of our special ids, and of their ids that no text has
WITHIN = "##"  # WordPiece's sign of a piece that continues a word


class HuggingFaceTokenizer(Tokenizer):
    """A tokenizer.json, computed by the library."""

    type: Stored = "huggingface"

    def __init__(self, data: bytes) -> None:
        """Raises ValueError for bytes that are no tokenizer."""
        from tokenizers import Tokenizer as Library

        try:
            with panics_refused():
                self.library = Library.from_str(data.decode())
        except Exception as problem:  # the library raises no other type
            raise ValueError(str(problem)) from None
        self.data = data
        self.vocabulary: int = self.library.get_vocab_size()
        self.written_as = writing(json.loads(data))

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return type(self), (self.data,)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        # One by one: the library computes several in threads of its own, which a fork does not survive.
        return [np.asarray(self._encoding(text).ids if text else (), self.dtype) for text in texts]

    def encode_after_space(self, texts: Sequence[str]) -> list[Ids]:
        return self.encode([f" {text}" if text else "" for text in texts] if self.written_as == "bytes" else texts)

    def decode(self, ids: Sequence[Sequence[int] | NDArray[Any]]) -> list[str]:
        return [self._text([int(number) for number in row]) for row in ids]

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        return [self._written[int(number)] for number in ids]

    def unknown(self, text: str) -> list[str]:
        encoding = self._encoding(text)
        return [
            text[begin:end]
            for number, (begin, end) in zip(encoding.ids, encoding.offsets, strict=True)
            if number == UNK
        ]

    def serialise(self) -> bytes:
        return self.data

    @classmethod
    def deserialise(cls, data: bytes, where: str) -> "HuggingFaceTokenizer":
        try:
            tokenizer = cls(data)
        except ValueError as problem:
            raise UserError(f"{where}: not a tokenizer of Hugging Face's library ({problem})") from None
        pieces = tuple(tokenizer.library.id_to_token(number) for number in range(len(SPECIAL_PIECES)))
        if pieces != tuple(OURS + piece for piece in SPECIAL_PIECES):
            raise UserError(f"{where}: its ids 0 to 5 are {pieces}, they must be {SPECIAL_PIECES}")
        return tokenizer

    def _encoding(self, text: str) -> Any:
        with panics_refused():
            try:
                return self.library.encode(text, add_special_tokens=False)
            except (TypeError, UnicodeError):  # a lone surrogate: the library takes UTF-8 only
                return self.library.encode(without_surrogates(text), add_special_tokens=False)

    def _text(self, row: Sequence[int]) -> str:
        """Returns the text of ids; runs between unknown ones are decoded by themselves."""
        kept = [number for number in row if number == UNK or number >= len(SPECIAL_PIECES)]
        with panics_refused():
            parts = [
                UNKNOWN_SURFACE * len(ids) if unknown else self.library.decode(ids, skip_special_tokens=False)
                for unknown, ids in ((unknown, list(run)) for unknown, run in groupby(kept, UNK.__eq__))
            ]
        if self.written_as == "words":
            return " ".join(part.removeprefix(WITHIN) for part in parts)
        text = "".join(parts)
        return text.removeprefix(" ") if self.written_as == "bytes" else text

    @cached_property
    def _written(self) -> list[str]:
        """Returns each id's piece as other tokenizers here write theirs: the sign for a space where a word begins."""
        names = [str(self.library.id_to_token(number)) for number in range(self.vocabulary)]
        if self.written_as == "bytes":
            return list(map(characters, names))
        if self.written_as == "words":
            return [name.removeprefix(WITHIN) if name.startswith(WITHIN) else begun(name) for name in names]
        return [name.lstrip(OURS + THEIRS) for name in names]


@contextlib.contextmanager
def panics_refused() -> Iterator[None]:
    """Turns a panic of the library's Rust code within the block, which is no Exception, into a user's mistake.

    A stranger's regular expression may take longer than the library allows.
    """
    try:
        yield
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":
            raise
        raise UserError(f"the tokenizer of this model cannot read such a text ({problem})") from None


def writing(content: dict[str, Any]) -> str:
    """Returns how a tokenizer.json writes spaces: "words" (WordPiece), "bytes" (GPT-2's signs) or "signs" (U+2581).

    Raises ValueError: none of these.
    """
    if content["model"].get("type") == "WordPiece":
        if content["model"].get("continuing_subword_prefix", WITHIN) != WITHIN:
            raise ValueError(f"continuing_subword_prefix={content['model']['continuing_subword_prefix']!r}")
        return "words"
    if content["model"].get("type") == "BPE":
        rules = json.dumps([content.get("pre_tokenizer"), content.get("normalizer")], ensure_ascii=False)
        if '"ByteLevel"' in rules:
            return "bytes"
        if SPACE in rules:
            return "signs"
    raise ValueError(f"{content['model'].get('type')}; this program reads WordPiece, and BPE of bytes or with {SPACE}")


def begun(name: str) -> str:
    """Returns the written form of a piece that begins a word."""
    return name.lstrip(OURS + THEIRS) if name[:1] in (OURS, THEIRS) else SPACE + name


def characters(name: str) -> str:
    """Returns a piece of bytes as text, with the sign for a space; as it is if it is part of a character."""
    if name[:1] in (OURS, THEIRS):
        return name.lstrip(OURS + THEIRS)
    try:
        return bytes(BYTES[sign] for sign in name).decode().replace(" ", SPACE)
    except (KeyError, UnicodeDecodeError):
        return name


def byte_signs() -> dict[str, int]:
    """Returns GPT-2's sign for each byte: itself if it can be seen, else a further character (Radford et al. 2019)."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + number): byte for number, byte in enumerate(others)}


BYTES = byte_signs()
