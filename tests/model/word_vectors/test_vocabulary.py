"""Which token ids get a vector, and in which order."""

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL_PIECES
from dragoman.model.word_vectors.vocabulary import Vocabulary

PIECES = [*SPECIAL_PIECES, "a", "b", "c", "d"]


def counts(*words: int) -> np.ndarray:
    return np.array([9, 99, 0, 50, 0, 0, *words])


def test_most_frequent_first_ties_as_the_ids_specials_left_out() -> None:
    vocabulary = Vocabulary.of(PIECES, counts(3, 7, 3, 1), min_count=2)
    assert vocabulary.words == ["b", "a", "c"]
    assert vocabulary.counts.tolist() == [7, 3, 3]
    assert vocabulary.rows.tolist() == [-1] * 6 + [1, 0, 2, -1]
    assert vocabulary.rows.dtype == np.int32
    assert (len(vocabulary), vocabulary.tokens) == (3, 13)


def test_unseen_words_have_no_row_whatever_the_min_count() -> None:
    assert Vocabulary.of(PIECES, counts(3, 0, 2, 0), min_count=0).words == ["a", "c"]


@pytest.mark.parametrize(
    ("words", "min_count", "message"),
    [
        ((0, 0, 0, 0), 1, "holds no words"),
        ((3, 2, 1, 1), 5, r"model.min_count=5: no word .* most frequent word occurs 3 times, 4 different"),
        ((9, 2, 1, 1), 5, r"model.min_count=5: only 'a'"),
        ((9, 0, 0, 0), 1, r"model.min_count=1: only 'a'"),
    ],
)
def test_too_few_words_are_refused(words: tuple[int, ...], min_count: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Vocabulary.of(PIECES, counts(*words), min_count)
