"""The order of a mix: shares, each part's own epochs, and the same batches anywhere."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest, MixedPart, Split, read_manifest, write_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.writer import write_shard
from dragoman.pipelines.loaders.mix import MixOrder, shares_of
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig, MixConfig
from tests.pipelines.loaders.test_pairs import check_resume, config
from tests.random_shards import MakeShards, random_records

SIZES = {"clean": 100, "bt": 700, "news": 203}


@pytest.fixture
def mixed(make_shards: MakeShards) -> Path:
    """Shards of three parts, chunks of 8 records."""
    records = random_records(sum(SIZES.values()))
    directory = make_shards(records, shard=2000)
    manifest = read_manifest(directory)
    entries, first = [], 0
    for number, (name, size) in enumerate(SIZES.items()):
        own = records[first : first + size]
        entries.append(write_shard(directory, "train", number, own, first, 8, "<u2", part=name))
        first += size
    parts = [MixedPart(name, "en-de", [], {"train": size}) for name, size in SIZES.items()]
    write_manifest(directory, dataclasses.replace(manifest, splits={"train": Split.of(entries)}, parts=parts))
    return directory


def order(directory: Path, mix: MixConfig | None = None, **changes: Any) -> MixOrder:
    settings = config(mix=mix or MixConfig(), window_chunks=4, **changes)
    loader = LaneLoader(ShardReader(directory, "train"), settings, 1)
    assert loader.mix is not None
    return loader.mix


def ids_of(mix: MixOrder, directory: Path, first: int, last: int) -> list[int]:
    """Record ids of the run's windows `first` to `last` - 1."""
    reader = ShardReader(directory, "train")
    slices = [one for place in range(first, last) for one in mix.window(*divmod(place, mix.windows))]
    return [reader.first_ids[one.chunk] + i for one in slices for i in range(one.begin, one.end)]


def by_part(ids: list[int]) -> dict[str, int]:
    ends = np.cumsum(list(SIZES.values()))
    return dict(Counter(list(SIZES)[int(np.searchsorted(ends, i, side="right"))] for i in ids))


def test_weights_are_the_shares_of_the_records(mixed: Path) -> None:
    mix = order(mixed, MixConfig(weights={"clean": 1, "bt": 3}))
    read = by_part(ids_of(mix, mixed, 0, 5 * mix.windows))
    assert set(read) == {"clean", "bt"}
    assert abs(read["bt"] - 3 * read["clean"]) <= 4


def test_without_weights_an_epoch_reads_all_records_nearly_once(mixed: Path) -> None:
    mix = order(mixed)
    read = by_part(ids_of(mix, mixed, 0, mix.windows))
    assert all(SIZES[name] - mix.windows - 1 <= read[name] <= SIZES[name] for name in SIZES)


@pytest.mark.parametrize(("temperature", "shares"), [(1.0, [100, 700, 203]), (5.0, [2.512, 3.707, 2.894])])
def test_temperature_flattens_the_sizes(mixed: Path, temperature: float, shares: list[float]) -> None:
    own = shares_of(read_manifest(mixed), MixConfig(temperature=temperature))
    assert list(own.values()) == pytest.approx([share / sum(shares) for share in shares], rel=1e-3)


def test_a_part_is_read_again_in_another_order(mixed: Path) -> None:
    mix = order(mixed, MixConfig(weights={"clean": 1}))
    ids = ids_of(mix, mixed, 0, 3 * mix.windows)
    first, second = ids[:100], ids[100:200]
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    epochs = [one.epoch for place in range(mix.windows) for one in mix.window(0, place)]
    assert epochs == sorted(epochs)


def test_every_window_continues_the_last_one(mixed: Path) -> None:
    """The closed formula of a window and reading from the beginning agree, over several epochs of a part."""
    mix = order(mixed, MixConfig(weights={"bt": 3, "clean": 1, "news": 0.7}))
    last = 3 * mix.windows + 5
    for name in SIZES:
        ends = [mix.read_before(place)[name] for place in range(last + 1)]
        assert ends == sorted(ends)
        taken = [one for place in range(last) for one in mix.window(*divmod(place, mix.windows))]
        reader = ShardReader(mixed, "train")
        assert sum(one.records for one in taken if reader.chunk_parts()[one.chunk] == name) == ends[-1]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_batches_are_the_same_on_any_number_of_ranks_and_after_a_resume(mixed: Path, size: int) -> None:
    check_resume(mixed, (size, size), config(mix=MixConfig(weights={"bt": 3, "clean": 1})))


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        (MixConfig(weights={"clear": 1}), "loader.mix.weights.*clear.*clean"),
        (MixConfig(weights={"clean": 0}), r"loader.mix.weights=0: must be .*above 0"),
        (MixConfig(weights={"clean": 1, "bt": -2}), r"loader.mix.weights=-2: must be .*above 0"),
        (MixConfig(weights={"clean": 1}, temperature=5), "loader.mix.temperature=5: is for parts without weights"),
    ],
)
def test_a_mix_that_cannot_be_is_refused(mixed: Path, mix: MixConfig, message: str) -> None:
    with pytest.raises(UserError, match=message):
        LaneLoader(ShardReader(mixed, "train"), config(mix=mix), 1)


def test_weights_need_a_mix(make_shards: Callable[..., Path]) -> None:
    directory = make_shards(random_records(200))
    with pytest.raises(UserError, match="the shards are of one corpus; corpus=mix makes"):
        LaneLoader(ShardReader(directory, "train"), LoaderConfig(lanes=2, mix=MixConfig(temperature=5)), 1)


def test_a_manifest_keeps_its_parts(mixed: Path) -> None:
    manifest: Manifest = read_manifest(mixed)
    assert manifest.part_ranges("train") == {"clean": range(100), "bt": range(100, 800), "news": range(800, 1003)}
    assert [entry.part for entry in manifest.split("train").shards] == list(SIZES)
