"""Tables for a terminal."""

from dragoman.model.columns import columns


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert columns([("RUN", "STEPS"), ("a", 1200), ("longer", 7)]) == ["RUN     STEPS", "a       1200", "longer  7"]
    assert columns([("split", "pairs"), ("train", "1,200")], right=True) == ["split  pairs", "train  1,200"]
    assert columns([("a", "pairs"), ("b", "7")], right=True) == ["a  pairs", "b      7"]
