"""A small corpus of pairs and its configuration, for the tests of the verb `shard`."""

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.model.shards.manifest import ShardsConfig
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import EOS, TokenizerConfig
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.corpus.read import staging
from dragoman.pipelines.corpus.settings import CorpusConfig, SplitFiles
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.shard import ShardResult
from tests.pipelines.ray_cluster import RayCluster, ray_cluster

WORDS = ["house", "tree", "meets", "the", "an", "small", "green", "river", "runs", "über", "naïve", "猫"]
LETTERS = str.maketrans("0123456789", "bcdfghklmn")  # other numbers would make near-copies


@pytest.fixture(scope="session")
def ray() -> Iterator[RayCluster]:
    """A Ray that tests share; what one leaves in it is ended by its `kill`."""
    with ray_cluster() as cluster:
        yield cluster


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks and shards from a few hundred lines."""
    monkeypatch.setattr(staging, "BLOCK_LINES", 100)


def make_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs whose sides belong together, no two equal."""
    rng = random.Random(seed)
    pairs = []
    for number in range(count):
        words = rng.choices(WORDS, k=rng.randint(2, 12))
        own = f"{seed}{number}".translate(LETTERS)
        pairs.append((" ".join([*words, own]), " ".join([f"{word[::-1]}o" for word in words] + [own])))
    return pairs


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> SplitFiles:
    """The pairs as two files of that name."""
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    return SplitFiles(source=str(folder / f"{name}.en"), target=str(folder / f"{name}.de"))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Config]:
    """make("name", seed=..., ...) -> the configuration of a small corpus whose shards go to tmp_path/name."""
    return small_corpus(tmp_path)


def small_corpus(folder: Path) -> Callable[..., Config]:
    """What the fixture `make` is, for another folder."""
    corpus = CorpusConfig(
        name="small",
        train=write_pairs(folder, "train", make_pairs(900, 1)),
        valid=write_pairs(folder, "valid", make_pairs(60, 2)),
        test=write_pairs(folder, "test", make_pairs(60, 3)),
    )

    def config(name: str, **keys: object) -> Config:
        values: dict[str, object] = {
            "corpus": corpus,
            "paths": PathsConfig(shards=str(folder / name)),
            "tokenizer": TokenizerConfig(name="characters", type="characters", vocabulary=200),
            "shards": ShardsConfig(chunk_records=32),
            "cluster": ClusterConfig(backend="local"),
        }
        return Config(**{**values, **keys})  # type: ignore[arg-type]

    return config


Make = Callable[..., Config]


def directory_bytes(directory: Path) -> dict[str, bytes]:
    """File name -> content."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def split_texts(result: ShardResult, split: str) -> list[tuple[str, str]]:
    """The split, read back from the shards."""
    pair = load_pair(result.directory, result.manifest.tokenizer)
    reader = ShardReader(result.directory, split)
    rows: list[list[str]] = [[], []]
    for number in range(reader.chunks):
        chunk = reader.chunk(number)
        for side, (ids, offsets, tokenizer) in enumerate(
            ((chunk.source, chunk.source_offsets, pair.source), (chunk.target, chunk.target_offsets, pair.target))
        ):
            assert ids is not None
            assert offsets is not None
            texts = [ids[start:stop] for start, stop in itertools.pairwise(offsets)]
            assert all(text[-1] == EOS for text in texts)
            rows[side] += tokenizer.decode([text[:-1] for text in texts])
    return list(zip(*rows, strict=True))
