"""Shard directories made of random ids: what tests of the reader, the loader and the verbs start from."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.shards.manifest import Manifest, Split, write_manifest
from dragoman.model.shards.writer import Record, write_shard
from dragoman.model.text.tokenizer import SPECIAL, SPECIAL_PIECES
from dragoman.model.text.words import WordTokenizer

VOCABULARY = 50
MakeShards = Callable[..., Path]


def random_records(count: int, seed: int = 0, longest: int = 30) -> list[Record]:
    """`count` pairs of 1 to `longest` ids, sides of similar length, never a special id."""
    rng = np.random.default_rng(seed)
    records: list[Record] = []
    for length in rng.integers(1, longest + 1, count):
        other = max(1, int(length) + int(rng.integers(-3, 4)))
        source, target = (rng.integers(len(SPECIAL), VOCABULARY, n).astype(np.uint16) for n in (length, other))
        records.append((source, target))
    return records


def write_shards(directory: Path, records: list[Record], chunk: int = 8, shard: int = 100) -> Path:
    """Makes a directory with a split `train`, tokenizer file and manifest."""
    directory.mkdir()
    entries = [
        write_shard(directory, "train", number, records[first : first + shard], first, chunk, "<u2")
        for number, first in enumerate(range(0, len(records), shard))
    ]
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *(f"w{i}" for i in range(VOCABULARY - len(SPECIAL)))])
    tokenizer.save(directory / "tokenizer.json")
    parallel = all(target is not None for _, target in records)
    digest = hashlib.sha256(tokenizer.serialise()).hexdigest()
    file = {"side": "both", "file": "tokenizer.json", "sha256": digest, "vocabulary": VOCABULARY}
    manifest = Manifest(
        corpus="random",
        languages=["en", "de"] if parallel else ["en"],
        tokenizer={"type": "words", "joint": True, "files": [file], "special": dict(SPECIAL)},
        dtype="<u2",
        splits={"train": Split.of(entries)},
        kind="parallel" if parallel else "monolingual",
    )
    write_manifest(directory, manifest)
    return directory


@pytest.fixture
def make_shards(tmp_path: Path) -> MakeShards:
    """make_shards(records, chunk=8, shard=100) -> a directory of this test's."""

    def make(records: list[Record], chunk: int = 8, shard: int = 100, name: str = "shards") -> Path:
        return write_shards(tmp_path / name, records, chunk, shard)

    return make


@pytest.fixture
def random_pairs() -> list[Record]:
    """300 pairs of random ids."""
    return random_records(300)
