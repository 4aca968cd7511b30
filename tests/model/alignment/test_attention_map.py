"""Alignment maps by hand: links, readings, heads."""

import numpy as np
import pytest

from dragoman.model.alignment.attention_map import END, AttentionMap, Head, links, read
from dragoman.model.errors import UserError
from dragoman.model.settings import AlignmentConfig


def shown(weights: list[list[float]], threshold: float = 0.0) -> AttentionMap:
    rows = np.array(weights, np.float32)
    return AttentionMap(("a", "b", END), ("x", "y", "z", END)[: len(rows)], rows, "l0h0", "output", threshold)


def test_pairs_are_the_heaviest_source_word_of_each_target_word() -> None:
    found = shown([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert found.pairs == [(0, 0), (0, 2), (1, 1)]  # the end of sentence is nobody's, of equal ones the first


def test_a_threshold_adds_every_word_of_that_weight() -> None:
    found = shown([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], threshold=0.4)
    assert found.pairs == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_a_word_that_looked_at_the_end_alone_has_no_link() -> None:
    assert shown([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]).pairs == []
    assert links(np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_a_target_without_its_end_links_its_last_word() -> None:
    found = AttentionMap(("a", END), ("x",), np.array([[1.0, 0.0]], np.float32), "mean", "output")
    assert found.pairs == [(0, 0)]


def test_the_record_is_json() -> None:
    assert shown([[0.66666, 0.33334, 0.0], [0.0, 0.0, 1.0]]).record() == {
        "source_tokens": ["a", "b", END],
        "target_tokens": ["x", "y"],
        "alignment": [[0, 0]],
        "weights": [[0.6667, 0.3333, 0.0], [0.0, 0.0, 1.0]],
        "head": "l0h0",
        "reading": "output",
    }


def test_read_by_input_a_row_is_the_one_before() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert read(rows, "output") is rows
    np.testing.assert_array_equal(read(rows, "input"), rows[[1, 2, 2]])
    np.testing.assert_array_equal(read(rows[:1], "input"), rows[:1])


def test_a_head_a_layer_or_the_mean_of_all() -> None:
    weights = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)  # (L, H, T, S)
    for name, expected in (("l1h2", weights[1, 2]), ("l1", weights[1].mean(0)), ("mean", weights.mean((0, 1)))):
        head = Head.of(name, 2, 3)
        assert str(head) == name
        np.testing.assert_allclose(head.select(weights), expected)


@pytest.mark.parametrize("name", ["l2h0", "l0h3", "h1", "1", "l-1", "best"])
def test_a_head_that_is_not_there_is_named_with_the_choices(name: str) -> None:
    with pytest.raises(UserError, match=r"alignment\.head.*l0 to l1, l0h0 to l1h2"):
        Head.of(name, 2, 3)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match=r"alignment\.threshold=1\.5"):
        AlignmentConfig(threshold=1.5).check()
    with pytest.raises(UserError, match=r"alignment\.head: '3\.2'"):
        AlignmentConfig(head="3.2").check()
