"""The verb `shard`, killed at any stage, on a full disk, on two workers: the same bytes."""

import errno
import os
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import ShardsConfig
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.shard import shard
from tests.pipelines.conftest import Make, directory_bytes
from tests.pipelines.killed_sharding import kill_sharding, shard_over_ray

pytestmark = pytest.mark.usefixtures("small_blocks")

SMALL = {"dragoman.pipelines.corpus.read.staging.BLOCK_LINES": 100}


def test_killed_at_any_stage_it_goes_on_to_the_same_bytes(make: Make, tmp_path: Path) -> None:
    undisturbed = directory_bytes(shard(make("undisturbed")).directory)
    config = make("killed")
    for where, call in (
        ("dragoman.pipelines.corpus.making.clean_block", 5),
        ("dragoman.pipelines.corpus.parallel.make_plan", 1),
        ("dragoman.model.shards.writer._write_chunks", 3),  # within the third shard: its file is unnamed yet
        ("dragoman.pipelines.shard.write_manifest", 1),
    ):
        kill_sharding(config, where, call, SMALL)
        assert not (config.shard_dir / "manifest.json").exists()
    written = {path.name: path.stat().st_mtime_ns for path in config.shard_dir.glob("train-*.tar")}
    shard(config)
    assert directory_bytes(config.shard_dir) == undisturbed
    assert all((config.shard_dir / name).stat().st_mtime_ns == time for name, time in written.items())


def test_what_another_configuration_left_unfinished_is_not_mixed_in(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed = directory_bytes(shard(make("undisturbed")).directory)
    unfinished = make("killed", seed=2, shards=ShardsConfig(chunk_records=16))
    kill_sharding(unfinished, "dragoman.pipelines.shard.write_manifest", 1, SMALL)
    with caplog.at_level("INFO"):
        shard(make("killed"))
    assert "starting anew" in caplog.text
    assert directory_bytes(tmp_path / "killed") == undisturbed


@pytest.mark.long
def test_two_workers_write_the_same_bytes(make: Make) -> None:
    one = shard(make("one"))
    two = make("two", cluster=ClusterConfig(backend="ray", workers=2))
    shard_over_ray(two, SMALL)
    assert directory_bytes(one.directory) == directory_bytes(two.shard_dir)


def test_a_full_disk_leaves_nothing_half_written_and_it_goes_on(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = directory_bytes(shard(make("undisturbed")).directory)
    config = make("full")
    room = 3
    fsync = os.fsync

    def full(descriptor: int) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as problem:
            shard(config)
    assert problem.value.filename == str(config.shard_dir)
    assert not (config.shard_dir / "manifest.json").exists()
    assert not [path for path in config.shard_dir.rglob("*") if path.name.startswith(".part")]
    shard(config)
    assert directory_bytes(config.shard_dir) == undisturbed


def test_two_commands_at_once_do_not_share_a_folder(make: Make) -> None:
    from dragoman.pipelines.corpus.read.scratch import claim_directory

    config = make("shards")
    with claim_directory(config.shard_dir), pytest.raises(UserError, match="another shard command is at work"):
        shard(config)
