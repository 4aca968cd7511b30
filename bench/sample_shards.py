"""A shard directory of made-up ids, for the benchmarks that need no text."""

import hashlib
from pathlib import Path

import numpy as np

from dragoman.model.shards.manifest import Manifest, Split, chunk_records, write_manifest
from dragoman.model.shards.writer import write_shard
from dragoman.model.text.tokenizer import SPECIAL, SPECIAL_PIECES
from dragoman.model.text.words import WordTokenizer


def write_sample_shards(directory: Path, pairs: list[tuple[np.ndarray, np.ndarray]], vocabulary: int) -> Path:
    """One shard `train` of `pairs` with a tokenizer of numbered words; returns the directory."""
    directory.mkdir(parents=True)
    entry = write_shard(directory, "train", 0, pairs, 0, chunk_records(len(pairs), 4096), "<u2")
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *(f"w{i}" for i in range(vocabulary - len(SPECIAL)))])
    tokenizer.save(directory / "tokenizer.json")
    file = {
        "side": "both",
        "file": "tokenizer.json",
        "sha256": hashlib.sha256(tokenizer.serialise()).hexdigest(),
        "vocabulary": vocabulary,
    }
    record = {"type": "words", "joint": True, "files": [file], "special": dict(SPECIAL)}
    manifest = Manifest("sample", ["en", "de"], record, "<u2", {"train": Split.of([entry])})
    write_manifest(directory, manifest)
    return directory
