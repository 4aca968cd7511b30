"""Loads tokenizers of every kind from their files; a kind's module is imported with its first file."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError, unknown
from dragoman.model.loaded import loaded
from dragoman.model.text.tokenizer import SPECIAL, Tokenizer, TokenizerPair

CLASSES = {
    "bpe": "dragoman.model.text.subwords:BpeTokenizer",
    "unigram": "dragoman.model.text.subwords:UnigramTokenizer",
    "words": "dragoman.model.text.words:WordTokenizer",
    "characters": "dragoman.model.text.words:CharacterTokenizer",
    "huggingface": "dragoman.model.text.huggingface_tokenizer:HuggingFaceTokenizer",
    "labels": "dragoman.model.text.labels:LabelTokenizer",
}


def load_pair(directory: Path, record: Mapping[str, Any]) -> TokenizerPair:
    """The pair that `TokenizerPair.describe` recorded, each file checked against its sha256."""
    if record["special"] != SPECIAL:
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
        sides[entry["side"]] = _class_of(entry.get("type", record["type"])).deserialise(data, str(path))
    if "both" in sides:
        return TokenizerPair(sides["both"], sides["both"])
    return TokenizerPair(sides["source"], sides["target"])


def _class_of(kind: str) -> type[Tokenizer]:
    if kind not in CLASSES:
        raise unknown("tokenizer.type", kind, CLASSES)
    made: type[Tokenizer] = loaded(CLASSES[kind])
    return made
