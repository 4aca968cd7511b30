"""Quality on several ranks: two find in a small text what one finds, with averages of their tables."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from dragoman.model.ports import free_ports
from dragoman.model.shards.writer import Record
from dragoman.model.text.tokenizer import SPECIAL
from dragoman.model.word_vectors.word2vec import Word2Vec, Word2VecConfig
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.segments import ShardText, shard_vocabulary
from dragoman.pipelines.word_vectors.loop import Decay, train_tables
from dragoman.pipelines.word_vectors.settings import VectorsConfig
from tests.random_shards import MakeShards
from tests.warm import start_ranks

GROUPS, SIZE = 4, 10  # every record holds words of one group
MODEL = Word2VecConfig(width=16, window=3, sample=0, min_count=1, lr=0.05)
ALONE = Ranks(0, 1, torch.device("cpu"))


@pytest.fixture
def shards(make_shards: MakeShards) -> Path:
    rng = np.random.default_rng(0)
    groups = rng.integers(GROUPS, size=1500)
    records: list[Record] = [
        ((len(SPECIAL) + group * SIZE + rng.integers(SIZE, size=10)).astype(np.uint16), None) for group in groups
    ]
    return make_shards(records, chunk=64, shard=1000)


def learned(shards: Path, run: Path, ranks: Ranks) -> tuple[NDArray[np.float32], float]:
    """(V, d) vectors after some epochs, and the last one's loss."""
    config = VectorsConfig(epochs=6, segment_words=500)
    vocabulary, _ = shard_vocabulary(shards, None, 1)
    learner = Word2Vec(MODEL, vocabulary.counts, 1)
    feed = ShardText(shards, "train", vocabulary, None, config.segment_words)
    progress = train_tables(
        learner, feed, config, Decay(MODEL.lr, MODEL.min_lr), run, ranks, 1, 1, lambda step, values: None
    )
    groups = np.argsort([int(word[1:]) for word in vocabulary.words])  # rows in the order of the groups
    return learner.vectors()["vectors"][groups], progress.losses[-1]


def purity(vectors: NDArray[np.float32]) -> float:
    """The share of the words' nearest neighbours, as many as the group has, that are of the same group."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = np.argsort(-(unit @ unit.T), axis=1)[:, 1:SIZE]
    return float(np.mean(nearest // SIZE == np.arange(len(vectors))[:, None] // SIZE))


def rank_process(rank: int, port: int, shards: str, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    vectors, loss = learned(Path(shards), Path(folder) / "two", Ranks(rank, 2, torch.device("cpu")))
    np.savez(Path(folder) / f"{rank}.npz", vectors=vectors, loss=loss)
    dist.destroy_process_group()


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
def test_two_ranks_find_what_one_finds(shards: Path, tmp_path: Path) -> None:
    one, loss = learned(shards, tmp_path / "one", ALONE)
    assert purity(one) > 0.95
    (port,) = free_ports(1)
    start_ranks(rank_process, (port, str(shards), str(tmp_path)))
    first, second = (np.load(tmp_path / f"{rank}.npz") for rank in (0, 1))
    assert np.array_equal(first["vectors"], second["vectors"])  # equal at the end, to the bit
    assert purity(first["vectors"]) > 0.95
    assert float(first["loss"]) == pytest.approx(loss, rel=0.05)
