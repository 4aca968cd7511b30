"""Shards are hashed once at a start, and again only where a file is another one since."""

import os
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.verify import verify_once
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.tasks.identity import check_shards
from tests.random_shards import MakeShards, random_records


@pytest.fixture
def shards(make_shards: MakeShards) -> Path:
    return make_shards(random_records(250))


def flip_an_id(file: Path) -> None:
    """The first id of the first chunk becomes another one of the vocabulary: nothing but the hash can tell."""
    data = bytearray(file.read_bytes())
    place = data.index(b"NUMPY") - 1 + 128
    data[place] ^= 1
    file.write_bytes(data)


def test_files_are_read_once_and_a_changed_one_again(shards: Path, tmp_path: Path) -> None:
    memory = tmp_path / "verified"
    assert [verify_once(shards, memory) for _ in range(2)] == [4, 0]
    file = shards / "train-000001.tar"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert [verify_once(shards, memory) for _ in range(2)] == [1, 0]


def test_a_flipped_id_that_the_reader_cannot_see_is_refused_at_the_start(shards: Path, tmp_path: Path) -> None:
    config = Config(name="run", paths=PathsConfig(root=str(tmp_path), shards=str(shards)))
    check_shards(config)
    flip_an_id(shards / "train-000000.tar")
    list(ShardReader(shards, "train"))
    for _ in range(2):  # what failed is not remembered
        with pytest.raises(UserError, match=r"train-000000\.tar: its sha256 is not the one in the manifest"):
            check_shards(config)


def test_other_ranks_leave_the_check_to_the_first(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    check_shards(Config(name="run", paths=PathsConfig(root=str(tmp_path), shards=str(shards))))
    assert not (tmp_path / "verified").exists()


@pytest.mark.parametrize("content", ["{", '{"files": 3}'])
def test_a_damaged_memory_only_costs_a_reading(shards: Path, tmp_path: Path, content: str) -> None:
    memory = tmp_path / "verified"
    verify_once(shards, memory)
    next(memory.iterdir()).write_text(content)
    assert verify_once(shards, memory) == 4
