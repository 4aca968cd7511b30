"""word2vec with summed sparse gradients: the batched steps' numbers, and the same tables on any number of ranks."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from dragoman.model.errors import UserError
from dragoman.model.ports import free_ports
from dragoman.model.word_vectors.batched import BatchedWord2Vec
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.word2vec import Word2VecConfig
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.word_vectors.synchronous import SynchronousWord2Vec
from tests.warm import start_ranks

WORDS = 40
COUNTS = np.arange(3 * WORDS, 2 * WORDS, -1, dtype=np.int64)
VARIANTS = list(product(["skipgram", "cbow"], ["negative", "hierarchical"]))
ALONE = Ranks(0, 1, torch.device("cpu"))


def text(tokens: int, seed: int) -> Text:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, WORDS, tokens).astype(np.int32)
    return Text(rows, np.array([0, tokens // 3, tokens], dtype=np.int64))


def config(algorithm: str, output: str) -> Word2VecConfig:
    return Word2VecConfig(algorithm=algorithm, output=output, width=20, window=3, negatives=4, sample=0.05)  # type: ignore[arg-type]


@pytest.mark.parametrize(("algorithm", "output"), VARIANTS)
def test_autograd_gives_the_batched_steps_numbers(algorithm: str, output: str) -> None:
    ours = SynchronousWord2Vec(config(algorithm, output), COUNTS, 5, ALONE, tokens=16)
    batched = BatchedWord2Vec(config(algorithm, output), COUNTS, 5, tokens=16)
    for seed in range(3):
        mine, theirs = ours.train(text(150, seed), 0.2, seed, 1), batched.train(text(150, seed), 0.2, seed, 1)
        assert mine == pytest.approx(theirs, rel=1e-5)
    for name, table in ours.tables.items():
        np.testing.assert_allclose(table, batched.tables[name], rtol=1e-4, atol=1e-6)
        assert np.array_equal(table[:, :20], ours.vectors()[name])


# of the two ranks' rounds: rank 1 has less in the second and nothing in the third
SEGMENTS = [(text(150, 1), text(140, 2)), (text(150, 3), text(40, 4)), (text(90, 5), text(0, 6))]


def rank_process(rank: int, port: int, folder: str, algorithm: str, output: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    ours = SynchronousWord2Vec(config(algorithm, output), COUNTS, 5, Ranks(rank, 2, torch.device("cpu")), tokens=16)
    totals = [ours.train(round_[rank], 0.2, 10 * number + rank, 1) for number, round_ in enumerate(SEGMENTS)]
    np.savez(Path(folder) / f"{rank}.npz", totals=np.array(totals), sent=ours.sent_since(), **ours.tables)
    dist.destroy_process_group()


@pytest.mark.parametrize(("algorithm", "output"), [("skipgram", "negative"), ("cbow", "hierarchical")])
@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
def test_two_ranks_take_the_steps_of_one_with_twice_the_words(algorithm: str, output: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    start_ranks(rank_process, (port, str(tmp_path), algorithm, output))
    alone = SynchronousWord2Vec(config(algorithm, output), COUNTS, 5, ALONE, tokens=16)
    for number, segments in enumerate(SEGMENTS):
        totals = alone.train_together(segments, 0.2, [10 * number, 10 * number + 1], 1)
        ranks = [np.load(tmp_path / f"{rank}.npz") for rank in range(2)]
        assert totals == pytest.approx(sum(rank["totals"][number] for rank in ranks), rel=1e-5)
    for name, table in alone.tables.items():
        assert np.array_equal(ranks[0][name], ranks[1][name])  # equal bit for bit
        np.testing.assert_allclose(ranks[0][name], table, rtol=1e-4, atol=1e-6)
    assert ranks[0]["sent"] > 0
    assert alone.sent_since() == 0


def test_the_words_of_a_step_are_shared_among_the_ranks() -> None:
    device = torch.device("cpu")
    sizes = [SynchronousWord2Vec(config("cbow", "negative"), COUNTS, 5, Ranks(0, n, device)).tokens for n in (1, 2, 4)]
    assert sizes == [512, 256, 128]


def test_a_full_softmax_has_no_sparse_gradients() -> None:
    with pytest.raises(UserError, match=r"vectors\.backend=ddp: model\.output=softmax.*Choices: numba, torch"):
        SynchronousWord2Vec(config("cbow", "softmax"), COUNTS, 5, ALONE)


def test_negatives_of_a_pairs_own_are_refused() -> None:
    with pytest.raises(UserError, match=r"model\.shared_negatives=false: .*Choices: .*vectors\.backend=numba"):
        SynchronousWord2Vec(replace(config("skipgram", "negative"), shared_negatives=False), COUNTS, 5, ALONE)
