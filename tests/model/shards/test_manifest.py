"""The manifest: read back as written, refused when it is not one."""

import json
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Split, chunk_records, manifest_hash, read_manifest, write_manifest
from dragoman.model.shards.writer import write_shard
from tests.random_shards import MakeShards, random_records


def test_it_comes_back_as_written_and_byte_for_byte(make_shards: MakeShards) -> None:
    directory = make_shards(random_records(250))
    manifest, data = read_manifest(directory), (directory / "manifest.json").read_bytes()
    write_manifest(directory, manifest)
    assert (directory / "manifest.json").read_bytes() == data
    assert read_manifest(directory) == manifest
    assert len(manifest_hash(directory)) == 64


def test_totals_are_sums_over_shards_in_any_order(tmp_path: Path) -> None:
    records = random_records(30)
    entries = [write_shard(tmp_path, "train", i, records[i * 10 : i * 10 + 10], i * 10, 8, "<u2") for i in range(3)]
    empty = write_shard(tmp_path, "train", 3, [], 30, 8, "<u2")
    split = Split.of([entries[2], empty, entries[0], entries[1]])
    assert split == Split.of(entries)
    assert [entry.first_id for entry in split.shards] == [0, 10, 20]
    assert (split.records, sum(split.source_lengths)) == (30, 30)
    assert split.source_tokens == sum(len(source) + 1 for source, _ in records)


def test_vocabularies_are_given_a_side(make_shards: MakeShards) -> None:
    manifest = read_manifest(make_shards(random_records(9)))
    assert manifest.vocabularies() == [50, 50]
    manifest.tokenizer["files"] = [{"side": "target", "vocabulary": 2}, {"side": "source", "vocabulary": 1}]
    assert manifest.vocabularies() == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "not a manifest"), ("[]", "format_version None"), ('{"format_version": 9}', "format_version 9")],
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(UserError, match=message):
        read_manifest(tmp_path)


def test_a_missing_manifest_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dragoman shard"):
        read_manifest(tmp_path)
    with pytest.raises(UserError, match="`dragoman shard` makes them"):
        read_manifest(tmp_path / "none")
    with pytest.raises(UserError, match="dragoman shard"):
        manifest_hash(tmp_path)


def test_unknown_keys_and_splits_are_named(make_shards: MakeShards) -> None:
    directory = make_shards(random_records(9))
    with pytest.raises(UserError, match=r"'trian'.*train"):
        read_manifest(directory).split("trian")
    values = json.loads((directory / "manifest.json").read_text())
    (directory / "manifest.json").write_text(json.dumps({**values, "sedd": 1}))
    with pytest.raises(UserError, match="sedd"):
        read_manifest(directory)


@pytest.mark.parametrize(
    ("records", "most", "size"),
    [(0, 4096, 4), (200, 4096, 4), (1000, 4096, 16), (29_000, 4096, 512), (10**6, 4096, 4096), (10**6, 1000, 1000)],
)
def test_small_corpora_get_small_chunks(records: int, most: int, size: int) -> None:
    assert chunk_records(records, most) == size
