"""Shards in a bucket: the same bytes, the same batches, fetched once."""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards import remote as module
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.opening import open_reader
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.verify import verify
from dragoman.model.storage import mirror, remote, retry
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.corpus.settings import CorpusConfig
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import ClusterConfig, LoaderConfig
from dragoman.pipelines.shard import shard
from tests.s3_server import Proxy

MakeConfig = Callable[..., Config]


def forget() -> None:
    """As a new process."""
    module.bring_directory.cache_clear()


@pytest.fixture
def make_config(s3: Proxy, tmp_path: Path, request: pytest.FixtureRequest) -> MakeConfig:
    """make_config(root, cache): a small sharding into `root`; {bucket} is a folder of this test's own in the bucket."""

    def make(root: str, cache: str = "cache") -> Config:
        forget()
        root = root.format(bucket=f"s3://bucket/{request.node.name}")
        paths = PathsConfig(root=root, shards=f"{root}/shards", runs=f"{root}/runs", cache=str(tmp_path / cache))
        return Config(
            name="run",
            paths=paths,
            corpus=CorpusConfig(name="everyday", format="everyday", pairs=300),
            tokenizer=TokenizerConfig(name="characters", type="characters"),
            cluster=ClusterConfig(backend="local"),
        )

    return make


def batches(config: Config, count: int = 12, reader: str = "mmap") -> list[str]:
    loader = LaneLoader(open_reader(config.shard_dir, "train", reader), LoaderConfig(lanes=2, batch_tokens=256), 1)
    try:
        return [str(batch.digest()) for _ in range(count) for batch in loader.step()]
    finally:
        loader.close()


def test_shards_in_a_bucket_are_the_same_bytes_and_batches(make_config: MakeConfig, s3: Proxy, tmp_path: Path) -> None:
    here = shard(make_config(str(tmp_path / "here")))
    there = shard(make_config("{bucket}"))
    assert there.manifest_hash == here.manifest_hash
    files = {path.name: path.read_bytes() for path in here.directory.iterdir() if path.is_file()}
    address = make_config("{bucket}").paths.shards
    assert files == {name: remote.read(f"{address}/{name}") for name in files}
    elsewhere = make_config("{bucket}", "another node")
    assert batches(elsewhere) == batches(make_config(str(tmp_path / "here")))
    s3.requests.clear()
    assert batches(elsewhere) == batches(elsewhere)
    assert {request.rpartition("/")[2] for request in s3.requests} == {"manifest.json"}, "a hit costs no request"


def test_shards_in_a_bucket_are_found_finished(make_config: MakeConfig, s3: Proxy) -> None:
    shard(make_config("{bucket}"))
    s3.requests.clear()
    assert shard(make_config("{bucket}", "another node")).found
    assert not [request for request in s3.requests if request.startswith("PUT")]
    with pytest.raises(UserError, match="another corpus or configuration"):
        shard(dataclasses.replace(make_config("{bucket}", "a third"), seed=2))


def test_an_interrupted_publishing_leaves_no_shards_and_goes_on(
    make_config: MakeConfig, s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config("{bucket}")
    s3.fault("away", "PUT", after=5, times=1e9)
    with monkeypatch.context() as patch, pytest.raises(Exception, match="no valid answer"):
        patch.setattr(retry, "DEADLINE", 0.3)
        shard(config)
    s3.faults.clear()
    with pytest.raises(UserError, match="no shards here"):
        read_manifest(make_config("{bucket}", "another node").shard_dir)
    sent = [request for request in s3.requests if request.startswith("PUT")]
    s3.requests.clear()
    shard(make_config("{bucket}"))
    again = [request for request in s3.requests if request.startswith("PUT")]
    assert 0 < len(again) < len(set(sent) | set(again)), "what had arrived is not sent again"


def test_a_shard_that_is_damaged_in_the_bucket_is_refused(make_config: MakeConfig) -> None:
    config = make_config("{bucket}")
    name = shard(config).manifest.split("train").shards[0].name
    content = bytearray(remote.read(f"{config.paths.shards}/{name}"))
    content[3000] ^= 1
    remote.write(f"{config.paths.shards}/{name}", bytes(content))
    elsewhere = make_config("{bucket}", "another node")
    with pytest.raises(UserError, match=f"{name}.*sha256"):
        verify(elsewhere.shard_dir)
    with pytest.raises(UserError, match=f"{name}.*sha256"):
        list(ShardReader(elsewhere.shard_dir, "train"))


@pytest.mark.parametrize("home", ["folder", "bucket"])
def test_a_stream_gives_the_same_batches_and_keeps_nothing(make_config: MakeConfig, tmp_path: Path, home: str) -> None:
    root = str(tmp_path / "here") if home == "folder" else "{bucket}"
    shard(make_config(root))
    elsewhere = make_config(root, "another node")
    assert batches(elsewhere, reader="stream") == batches(make_config(root, "a third"))
    assert not (tmp_path / "another node" / "objects").exists() or home == "bucket"


def test_a_chunk_that_was_changed_is_refused_by_a_stream(make_config: MakeConfig, tmp_path: Path) -> None:
    made = shard(make_config(str(tmp_path / "here")))
    path = made.directory / made.manifest.split("train").shards[0].name
    content = bytearray(path.read_bytes())
    content[520] ^= 1  # in the chunk's own record
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"changed|damaged"):
        list(open_reader(made.directory, "train", "stream"))


def test_expected_shards_are_fetched_beside(make_config: MakeConfig, s3: Proxy) -> None:
    shard(make_config("{bucket}"))
    reader = ShardReader(make_config("{bucket}", "another node").shard_dir, "train")
    reader.expect(range(reader.chunks))
    assert reader._fetching is not None
    reader._fetching.shutdown(wait=True)
    s3.requests.clear()
    read = [chunk.source.copy() for chunk in reader]
    assert not s3.requests and len(np.concatenate(read)) == reader.manifest.split("train").source_tokens


def test_plain_folders_stand_for_nothing(tmp_path: Path) -> None:
    assert mirror.remote_of(tmp_path / "a" / "b") is None
    assert list(itertools.islice(tmp_path.iterdir(), 1)) == []
