"""A text cut into shares."""

from itertools import pairwise

import numpy as np
import pytest

from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.word2vec import ThreadPool, shares


def text(*lengths: int) -> Text:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Text(np.arange(offsets[-1], dtype=np.int32), offsets)


@pytest.mark.parametrize("lengths", [(10_000,), (1000,) * 10, (1, 9000, 0, 0, 999)], ids=["endless", "even", "uneven"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_shares_are_even_and_together_the_text(lengths: tuple[int, ...], threads: int) -> None:
    whole = text(*lengths)
    parts = shares(whole, threads)
    sizes = [int(part.offsets[-1] - part.offsets[0]) for part in parts]
    assert len(parts) == threads
    assert max(sizes) - min(sizes) <= 1
    assert parts[0].offsets[0] == 0
    assert all(a.offsets[-1] == b.offsets[0] for a, b in pairwise(parts))
    together = set().union(*(part.offsets.tolist() for part in parts))
    assert set(whole.offsets.tolist()) <= together


def test_a_short_or_empty_text_stays_whole() -> None:
    assert len(shares(text(500, 400), 8)) == 1
    assert len(shares(text(), 8)) == 1
    assert len(shares(text(2500), 8)) == 2


def test_results_come_in_the_order_of_the_parts_and_errors_come_out() -> None:
    parts, pool = shares(text(5000), 4), ThreadPool()
    for some in (parts[:2], parts, parts[:1], parts):  # more of them than before, and fewer
        assert pool.work(lambda number, part: (number, len(part.offsets)), some) == [(n, 2) for n in range(len(some))]
    with pytest.raises(ZeroDivisionError):
        pool.work(lambda number, part: 1 // (number - 3), parts)
    assert pool.work(lambda number, part: number, parts) == [0, 1, 2, 3]
