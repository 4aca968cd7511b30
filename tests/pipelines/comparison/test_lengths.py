from typing import Any
from unittest.mock import Mock

import pytest

from dragoman.pipelines.comparison.pictures import length_buckets, scores_by_length


def test_a_bucket_spans_five_lengths_and_small_ones_are_joined() -> None:
    sources = ["a"] * 3 + ["a b c d e"] * 2 + ["a b c d e f"] * 4 + ["a " * 12] * 2 + ["a " * 40]
    assert length_buckets(sources, step=5, fewest=5) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9, 10, 11]]
    assert length_buckets(sources, step=5, fewest=2) == [[0, 1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11]]
    assert length_buckets(["", "a"], fewest=20) == [[0, 1]]


def test_bleu_falls_where_the_long_sentences_are_wrong() -> None:
    short, long = "ein hund läuft schnell", "ein sehr alter hund läuft mit einem kind durch den großen park"
    texts = [short] * 20 + [long] * 20
    hypotheses = [short] * 20 + ["ein hund läuft mit einem ball durch den park"] * 20
    evaluation: Any = Mock(sources=texts, references=texts, hypotheses=hypotheses, pair="en-de", tokenize="13a")
    first, last = scores_by_length(evaluation, [-2.2] * 20 + [-12.4] * 20)
    assert [first.surprise, last.surprise] == pytest.approx([2.2 / len(short), 12.4 / len(long)])
    assert (first.low, first.high, first.sentences, first.mean) == (4, 4, 20, 4.0)
    assert first.bleu == pytest.approx(100.0)
    assert last.bleu < 50
