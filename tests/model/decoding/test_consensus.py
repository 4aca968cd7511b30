"""Consensus among hypotheses, against a plain count."""

import math
from collections import Counter

import numpy as np
import pytest

from dragoman.model.decoding.consensus import likeness, sort_by_consensus
from dragoman.model.decoding.hypothesis import Hypothesis
from dragoman.model.errors import UserError
from dragoman.model.settings import DecodeConfig


def plain_bleu(text: list[int], reference: list[int]) -> float:
    """BLEU with one more of everything, by the definition."""
    logs = 0.0
    for order in (1, 2, 3, 4):
        ours, theirs = (
            Counter(tuple(side[i : i + order]) for i in range(len(side) - order + 1)) for side in (text, reference)
        )
        logs += math.log(((ours & theirs).total() + 1) / (ours.total() + 1)) / 4
    return math.exp(logs + min(0.0, 1 - len(reference) / max(1, len(text))))


def found(ids: list[int], score: float) -> Hypothesis:
    return Hypothesis(tuple(ids), score, score * (len(ids) + 1), ended=True)


def test_likeness_is_bleu_by_its_definition() -> None:
    rng = np.random.default_rng(1)
    texts = [rng.integers(0, 6, rng.integers(0, 12)).tolist() for _ in range(20)] + [[], [3], [3]]
    expected = [[plain_bleu(one, other) for other in texts] for one in texts]
    np.testing.assert_allclose(likeness(texts), expected, rtol=1e-12)
    assert likeness([[7, 8]]) == 1.0


def test_the_one_that_is_like_the_others_comes_first_where_the_weight_says_so() -> None:
    alone, *others = [
        found([9, 9, 9, 9, 9], -0.1),
        found([1, 2, 3, 4, 5], -0.3),
        found([1, 2, 3, 4, 6], -0.2),
        found([1, 2, 3, 4, 5, 7], -0.4),
    ]
    assert sort_by_consensus([alone, others[1], others[0], others[2]], 0.0) == [alone, others[1], others[0], others[2]]
    assert sort_by_consensus([alone, *others], 10.0)[0] is others[0]
    assert sort_by_consensus([alone, *others], 10.0)[-1] is alone
    twins = [found([1, 2], -1.0), found([1, 2], -1.0)]
    assert sort_by_consensus(twins, 1.0)[0] is twins[0]


@pytest.mark.parametrize("weight", [-0.5, math.inf, math.nan])
def test_a_weight_that_cannot_be_is_refused_by_name(weight: float) -> None:
    with pytest.raises(UserError, match=r"decode\.consensus"):
        DecodeConfig(consensus=weight).check()
