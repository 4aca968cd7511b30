"""The thread that prepares batches: what goes wrong in it, and its end."""

import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.loaders.prefetch import OpenWindow
from dragoman.pipelines.settings import LoaderConfig
from tests.random_shards import MakeShards, random_records


@pytest.fixture
def directory(make_shards: MakeShards) -> Path:
    return make_shards(random_records(1003), chunk=8, shard=300)


def config(**changes: Any) -> LoaderConfig:
    return LoaderConfig(**{"lanes": 4, "batch_tokens": 256, "window_chunks": 16, "max_length": 64, **changes})


def test_a_failure_in_the_thread_rises_in_step(directory: Path) -> None:
    path = directory / "train-000001.tar"
    data = bytearray(path.read_bytes())
    data[1000:100_000] = bytes(len(data[1000:100_000]))
    path.write_bytes(data)
    loader = LaneLoader(ShardReader(directory, "train"), config(), seed=1)
    with pytest.raises(UserError, match=r"train-000001\.tar"):
        for _ in range(100):
            loader.step()
    loader.close()


def test_what_was_made_before_a_failure_is_given_first(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are handed over several at a time; the failure comes behind the last good one."""
    loader = LaneLoader(ShardReader(directory, "train"), config(lanes=1), seed=1)
    whole, good = loader.open, 0

    def breaks(lane: int, epoch: int, number: int) -> OpenWindow[TranslationBatch]:
        nonlocal good
        if number == 2:
            raise UserError("the third window is broken")
        opened = whole(lane, epoch, number)
        good += opened.batches
        return opened

    monkeypatch.setattr(loader, "open", breaks)
    given = 0
    with pytest.raises(UserError, match="third window"):
        while True:
            loader.step()
            given += 1
    assert given == good > 8
    with pytest.raises(UserError, match="third window"):
        loader.step()
    loader.close()


def test_closing_ends_the_thread_at_any_time(directory: Path) -> None:
    before = threading.active_count()
    loader = LaneLoader(ShardReader(directory, "train"), config(), seed=1)
    loader.close()
    loader.step()
    assert threading.active_count() == before + 1
    position = loader.state()
    loader.close()
    loader.close()
    assert threading.active_count() == before
    assert loader.state() == position
    loader.step()  # starts again where it stood
    assert loader.state() != position
    loader.close()
