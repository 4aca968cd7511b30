"""Averages of tables over ranks: which rows after which round, in place, and what is sent."""

import numpy as np
import pytest
import torch

from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.word_vectors.averaging import Averaging, finite, rate_factor, rows_due
from dragoman.pipelines.word_vectors.settings import VectorsConfig


def test_frequent_rows_are_averaged_more_often() -> None:
    assert [rows_due(i) // 1024 for i in range(1, 17)] == [1, 2, 1, 4, 1, 2, 1, 8, 1, 2, 1, 4, 1, 2, 1, 16]


@pytest.mark.parametrize(("lr", "world", "expected"), [(0.025, 1, 0.025), (0.025, 2, 0.05), (0.025, 8, 0.1)])
def test_the_rate_grows_with_the_ranks_up_to_a_limit(lr: float, world: int, expected: float) -> None:
    assert lr * rate_factor(lr, world, VectorsConfig()) == pytest.approx(expected)


def test_a_rate_above_the_limit_stays() -> None:
    assert rate_factor(0.3, 4, VectorsConfig()) == 1


def test_the_rate_is_not_scaled_where_nobody_asks_for_it() -> None:
    assert rate_factor(0.025, 4, VectorsConfig(scale_lr=False)) == 1


def test_one_rank_has_nothing_to_average() -> None:
    table = np.ones((5, 16), dtype=np.float32)
    averaging = Averaging({"t": table}, Ranks(0, 1, torch.device("cpu")))
    averaging.after_round()
    averaging.everything()
    assert averaging.sent_since() == 0
    assert (table == 1).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_found(bad: float) -> None:
    table = np.zeros((1000, 16), dtype=np.float32)
    assert finite({"t": table})
    table[999, 3] = bad
    assert not finite({"t": table})
