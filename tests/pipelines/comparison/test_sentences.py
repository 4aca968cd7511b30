from dragoman.pipelines.comparison.pictures import map_sentences
from dragoman.pipelines.evaluation.held_out import pick_evenly


def test_sentences_of_the_user_come_first_and_once() -> None:
    assert map_sentences(["x", "x"], ["held out"], 3) == ["x"]


def test_without_ours_the_held_out_set_gives_some() -> None:
    sources = ["", *(f"word {number} " * 5 for number in range(40)), *["long " * 30] * 3]
    assert len(map_sentences([], sources, 3)) == 3


def test_spread_takes_the_first_and_the_last() -> None:
    assert pick_evenly([1, 2, 3, 4, 5], 3) == [1, 3, 5]
    assert pick_evenly([1], 3) == [1]
    assert pick_evenly([1, 2], 1) == [1]
