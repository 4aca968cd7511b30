"""`manifest.json`, the record of a shard directory: written last, it names every other file with its sha256."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from dragoman.model.errors import UserError, unknown
from dragoman.model.files import atomic_write
from dragoman.model.ranges import Count
from dragoman.model.schema import build
from dragoman.model.shards.layout import FORMAT_VERSION
from dragoman.model.storage.mirror import remote_of

MANIFEST = "manifest.json"
LABELS = "labels"  # the name of the second side of labelled texts
LENGTH_BOUNDS = [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512]  # tokens with EOS; the last bucket is open


@dataclass
class ShardsConfig:
    """The cutting of a split. A shard is a fixed range of the corpus' lines; a chunk is the unit of reading."""

    shard_lines: Count = 131_072  # corpus lines per shard (records, if nothing is filtered)
    chunk_records: Count = 4_096  # most records per chunk; fewer in a small corpus, see `chunk_records()`
    keep_text: bool = False  # also keep the training text beside the shards, as train.{language}.txt.zst
    verify: bool = False  # check the sha256 of existing shards, not only their size


@dataclass
class ShardEntry:
    """One finished shard, and the content of its sidecar file."""

    name: str
    bytes: int
    sha256: str
    first_id: int
    records: int
    source_tokens: int  # with EOS
    target_tokens: int  # 0 if the corpus is monolingual
    chunks: list[list[int]]  # [offset in the file, records, source tokens, target tokens] of each chunk
    source_lengths: list[int]  # histogram over LENGTH_BOUNDS
    target_lengths: list[int]
    key: str = ""  # the shard's inputs, in the maker's words; a restart reuses only a shard with an equal key
    part: str = ""  # the corpus of a mix that its records come from


@dataclass
class Split:
    """The shards of train, valid or test, in order, and their totals."""

    records: int
    source_tokens: int
    target_tokens: int
    source_lengths: list[int]
    target_lengths: list[int]
    shards: list[ShardEntry]

    @staticmethod
    def of(entries: Iterable[ShardEntry]) -> "Split":
        """Makes the split of these shards, sorted by first id; drops empty shards."""
        shards = sorted((entry for entry in entries if entry.records), key=lambda entry: (entry.first_id, entry.name))
        buckets = range(len(LENGTH_BOUNDS) + 1)
        return Split(
            records=sum(entry.records for entry in shards),
            source_tokens=sum(entry.source_tokens for entry in shards),
            target_tokens=sum(entry.target_tokens for entry in shards),
            source_lengths=[sum(entry.source_lengths[i] for entry in shards) for i in buckets],
            target_lengths=[sum(entry.target_lengths[i] for entry in shards) for i in buckets],
            shards=shards,
        )


@dataclass
class MixedPart:
    """One corpus of a mix. The records of a split, and the lines of its texts, are in the order of the parts."""

    name: str
    pair: str
    tags: list[str]  # before each of its source sentences
    records: dict[str, int]  # by split


@dataclass
class Manifest:
    """The record of a shard directory."""

    corpus: str
    languages: list[str]  # [source, target], or one
    tokenizer: dict[str, Any]  # TokenizerPair.describe()
    dtype: Literal["<u2", "<u4"]
    splits: dict[str, Split]
    kind: Literal["parallel", "monolingual", "labelled"] = "parallel"
    seed: int = 1
    normalisation: str = "NFC"
    config_hash: str = ""
    config: dict[str, Any] = field(default_factory=dict)  # the content that config_hash covers
    sources: list[dict[str, Any]] = field(default_factory=list)  # {name, sha256, bytes, lines}
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)  # split -> rule -> records
    warnings: list[str] = field(default_factory=list)
    texts: dict[str, dict[str, dict[str, Any]]] = field(
        default_factory=dict
    )  # split -> language -> {file, sha256, lines}
    parts: list[MixedPart] = field(default_factory=list)  # the corpora of a mix
    training_texts: dict[str, Any] = field(default_factory=dict)  # {file, sha256} of their hashes
    length_bounds: list[int] = field(default_factory=lambda: list(LENGTH_BOUNDS))
    format_version: int = FORMAT_VERSION

    @property
    def sides(self) -> list[str]:
        """Returns the names of a record's sides: the languages, and `labels` of labelled texts."""
        return [*self.languages, LABELS] if self.kind == "labelled" else self.languages

    def vocabularies(self) -> list[int]:
        """Returns the vocabulary size of each side: [source, target], twice the same if joint."""
        sizes = {entry["side"]: int(entry["vocabulary"]) for entry in self.tokenizer["files"]}
        return [sizes["both"]] * len(self.languages) if "both" in sizes else [sizes["source"], sizes["target"]]

    def part_ranges(self, split: str) -> dict[str, range]:
        """Returns part -> its record ids in a split, which are also the numbers of its lines in the split's texts."""
        ranges, first = {}, 0
        for part in self.parts:
            ranges[part.name] = range(first, first := first + part.records.get(split, 0))
        return ranges

    def split(self, name: str) -> Split:
        """Returns the split `name`; raises UserError with the choices if there is none."""
        if name not in self.splits:
            raise unknown("split", name, self.splits)
        return self.splits[name]


def chunk_records(records: int, most: int) -> int:
    """Returns the records per chunk for a split of `records`: at most `most`, and a power of two.

    A split gets 32 chunks or more, because the loader shuffles chunks and deals them to lanes: 29,000 records get
    chunks of 512. Never fewer than 4 records, where the tar headers outweigh the text.
    """
    largest_power = 1 << (max(records // 32, 1).bit_length() - 1)
    return min(most, max(4, largest_power))


def write_manifest(directory: Path, manifest: Manifest) -> Path:
    """Writes `manifest.json` atomically; the directory counts as complete from then on."""
    values = asdict(manifest)
    for split in values["splits"].values():
        split["shards"] = [{k: v for k, v in entry.items() if v or k != "part"} for entry in split["shards"]]
    text = json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    path = directory / MANIFEST
    atomic_write(path, text.replace('{"bytes":', '\n{"bytes":') + "\n")  # one line per shard
    return path


def read_manifest(directory: Path) -> Manifest:
    """Reads the manifest of a shard directory."""
    path = directory / MANIFEST
    _bring(directory)
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        hint = (
            "sharding was not finished; run `dragoman shard` again"
            if directory.is_dir()
            else "`dragoman shard` makes them"
        )
        raise UserError(f"{path}: no shards here ({hint})") from None
    except ValueError as problem:
        raise UserError(f"{path}: not a manifest ({problem})") from None
    if not isinstance(values, dict) or values.get("format_version") != FORMAT_VERSION:
        version = values.get("format_version") if isinstance(values, dict) else None
        raise UserError(f"{path}: format_version {version!r} cannot be read here, only {FORMAT_VERSION}; shard again")
    return build(Manifest, values, str(path))


def has_manifest(directory: Path) -> bool:
    """Returns True if sharding into the directory has finished."""
    _bring(directory)
    return (directory / MANIFEST).is_file()


def manifest_hash(directory: Path) -> str:
    """Returns the sha256 (hex) of `manifest.json`: the identity of a data set in runs, bundles and answers."""
    _bring(directory)
    try:
        return hashlib.sha256((directory / MANIFEST).read_bytes()).hexdigest()
    except FileNotFoundError:
        raise UserError(f"{directory / MANIFEST}: no shards here; `dragoman shard` makes them") from None


def _bring(directory: Path) -> None:
    """Fetches the manifest and the small files of a directory that stands for an address."""
    if remote_of(directory) is not None:
        from dragoman.model.shards.remote import bring_directory  # with the libraries of addresses

        bring_directory(directory, MANIFEST)
