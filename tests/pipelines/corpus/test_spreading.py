"""Tasks of a sharding that see nothing of this machine's disk: the same bytes, in the bucket, and each made once.

Nodes are played by this process with a cache of another; tests/pipelines/test_train_over_nodes.py has real ones.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.s3_server import Proxy
from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import ShardsConfig
from dragoman.model.storage import remote
from dragoman.pipelines import shard as verb
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.corpus import making
from dragoman.pipelines.corpus.pack import spreading
from dragoman.pipelines.corpus.read import staging
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig, SplitFiles
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.tracking.server import TrackingConfig

SIZES = ShardsConfig(chunk_records=16, shard_lines=64)
WORDS = ["the", "house", "green", "rivers", "über", "naïve", "猫", "old", "tree"]


@contextlib.contextmanager
def nodes(cluster: ClusterConfig, lines: int) -> Iterator[ClusterConfig]:
    """As `workers` of a cluster whose nodes are this process."""
    yield ClusterConfig(backend="local", address="somewhere:6379")


@pytest.fixture
def made(tmp_path: Path, s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> Any:
    """made("text" or "moses", home) -> (the names of all files of its shards, the folder here)."""
    monkeypatch.setattr(staging, "BLOCK_LINES", 100)
    for name, word in (("a.en", "w"), ("a.de", "v")):
        lines = [f"{word}{n} {WORDS[n % 9]} {WORDS[n % 7]} {WORDS[n % 5]} x{n}" for n in range(400)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def make(form: str, home: str, **changes: Any) -> tuple[list[str], Path]:
        pair = form == "moses"
        train = (
            SplitFiles(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de"))
            if pair
            else SplitFiles(file=str(tmp_path / "a.en"))
        )
        place = f"{home}/{form}"
        config = Config(
            pair="en-de" if pair else "en",
            paths=PathsConfig(root=home, shards=place, cache=str(tmp_path / f"cache {len(home)}")),
            corpus=CorpusConfig(name="x", format=form, train=train, clean=CleanConfig(), **changes),  # type: ignore[arg-type]  # one of the two
            shards=SIZES,
            tracking=TrackingConfig(offline=True),
        )
        config.tokenizer.name, config.tokenizer.type, config.tokenizer.vocabulary = "characters", "characters", 300
        result = verb.shard(config)
        names = [entry.name for split in result.manifest.splits.values() for entry in split.shards]
        names += [entry["file"] for entry in result.manifest.tokenizer["files"]]
        return ["manifest.json", *names], result.directory

    return make


@pytest.mark.parametrize("form", ["moses", "text"])
def test_nodes_apart_make_the_same_bytes(form: str, made: Any, s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    names, _ = made(form, "s3://bucket/alone")
    monkeypatch.setattr(making, "workers", nodes)
    apart, folder = made(form, "s3://bucket/spread")
    assert apart == names and len(names) > 4
    for name in names:
        assert remote.read(f"s3://bucket/spread/{form}/{name}") == remote.read(f"s3://bucket/alone/{form}/{name}")
    assert not list(folder.glob(".part-*")) and not list(folder.glob("*.tar"))


def test_what_nodes_have_made_is_not_made_again(made: Any, s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "workers", nodes)
    real, calls = spreading._pack, []

    def fails_at_the_third(cache: Any, address: str, texts: Any) -> Any:
        calls.append(texts.task.index)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(cache, address, texts)

    monkeypatch.setattr(spreading, "_pack", fails_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        made("moses", "s3://bucket/again")
    assert len(calls) == 3
    names, _ = made("moses", "s3://bucket/again")
    shards = [name for name in names if name.endswith(".tar")]
    assert len(calls) == 3 + len(shards) - 2
    manifest = json.loads(remote.read("s3://bucket/again/moses/manifest.json"))
    assert sum(len(split["shards"]) for split in manifest["splits"].values()) == len(shards)


def test_a_bad_line_is_named_as_on_one_machine(
    made: Any, s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "workers", nodes)
    with (tmp_path / "a.en").open("rb+") as file:
        file.seek(2000)
        file.write(b"\xff")
    with pytest.raises(UserError, match=rf"{tmp_path}/a.en: line \d+"):
        made("moses", "s3://bucket/bad")
