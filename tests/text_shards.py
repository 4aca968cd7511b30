"""Shards of sentences that a test gives, with words as tokens."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.shards.manifest import Manifest, Split, write_manifest
from dragoman.model.shards.writer import write_shard
from dragoman.model.text.tokenizer import SPECIAL, SPECIAL_PIECES
from dragoman.model.text.words import WordTokenizer

Pairs = Sequence[tuple[str, str]]


def write_text_shards(folder: Path, splits: Mapping[str, Pairs], chunk: int = 8, **facts: Any) -> Path:
    """Writes pairs by split, `chunk` to a chunk and 100 to a shard; `facts` are other fields of the manifest."""
    folder.mkdir(parents=True)
    words = sorted({word for pairs in splits.values() for pair in pairs for side in pair for word in side.split()})
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *words])
    tokenizer.save(folder / "tokenizer.json")
    entries = {}
    for split, pairs in splits.items():
        sides = [tokenizer.encode([pair[side] for pair in pairs]) for side in (0, 1)]
        records = [(one.astype(np.uint16), other.astype(np.uint16)) for one, other in zip(*sides, strict=True)]
        entries[split] = Split.of(
            write_shard(folder, split, number, records[first : first + 100], first, chunk, "<u2")
            for number, first in enumerate(range(0, len(records), 100))
        )
    digest = hashlib.sha256(tokenizer.serialise()).hexdigest()
    file = {"side": "both", "file": "tokenizer.json", "sha256": digest, "vocabulary": tokenizer.vocabulary}
    tokenizers = {"type": "words", "joint": True, "files": [file], "special": dict(SPECIAL)}
    values = {"corpus": "books", "languages": ["en", "de"], "tokenizer": tokenizers, "dtype": "<u2", **facts}
    write_manifest(folder, Manifest(splits=entries, **values))
    return folder
