"""The held-out texts of shards, by split and language, checked against the manifest."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from dragoman.model.errors import UserError, unknown
from dragoman.model.shards.manifest import read_manifest

Item = TypeVar("Item")


def held_out(
    shards: Path, split: str, languages: Sequence[str], sentences: int = 0, key: str = "evaluate.split"
) -> tuple[list[str], list[str]]:
    """Reads sources and references of a split from the shard directory; the first `sentences` of them, 0 for all."""
    source, target = (held_out_lines(shards, split, language, sentences, key) for language in languages)
    return source, target


def held_out_lines(shards: Path, split: str, language: str, most: int = 0, key: str = "evaluate.split") -> list[str]:
    """Reads one language of `held_out`; `key` is the setting to name in messages."""
    texts = read_manifest(shards).texts
    if split not in texts:
        raise unknown(key, split, texts)
    if language not in texts[split]:
        raise UserError(f"{shards}: {split} is in {', '.join(texts[split])}; the bundle needs {language!r}")
    entry = texts[split][language]
    path = shards / entry["file"]
    if not path.is_file():
        raise UserError(f"{path}: missing from the shard directory; run `dragoman shard` again")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise UserError(f"{path}: not the file that was written (its sha256 differs); run `dragoman shard` again")
    lines: list[str] = content.decode().split("\n")[:-1]
    return lines[:most] if most else lines


def gate_split(shards: Path, split_name: str) -> str:
    """Returns the split that decides a promotion: `promote.split`, where `auto` means gate, else valid."""
    texts = [split for split in read_manifest(shards).texts if split not in ("train", "test")]
    if split_name == "test":
        raise UserError(
            f"promote.split=test: a test set is reported and not selected on. Choices: auto, {', '.join(texts) or '-'}"
        )
    if split_name != "auto" and split_name not in texts:
        raise unknown("promote.split", split_name, ["auto", *texts])
    splits = [split for split in ("gate", "valid") if split in texts] if split_name == "auto" else [split_name]
    if not splits:
        raise UserError(
            f"promote.split: {shards} keeps neither a gate nor a validation set; corpus.cut.gate=0.02 gives one "
            f"(dragoman shard), or use promote.force=true with a reason"
        )
    return splits[0]


def pick_evenly(items: Sequence[Item], count: int) -> list[Item]:
    """Returns `count` of the items, evenly from the first to the last; all if there are fewer."""
    count = min(count, len(items))
    return [items[round(number * (len(items) - 1) / max(1, count - 1))] for number in range(count)]
