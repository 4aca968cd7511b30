"""Training pairs that nearly repeat another one, and pairs that only look like it."""

from pathlib import Path

import pytest

from dragoman.pipelines.corpus.plan import near_duplicates as module
from dragoman.pipelines.corpus.plan.near_duplicates import near_duplicates

LONG_A = "yesterday evening my older brother bought two very old books about the history of the city"
LONG_B = "gestern Abend kaufte mein älterer Bruder zwei sehr alte Bücher über die Geschichte der Stadt"
COMMON = [("The house is old.", "Das Haus ist alt."), ("The house is big.", "Das Haus ist groß.")] * 10


def _found(folder: Path, pairs: list[tuple[str, str]]) -> list[tuple[int, int]]:
    numbered = ((number, *pair, 0.0) for number, pair in enumerate(pairs))
    found = sorted(near_duplicates(numbered, len(pairs), folder / "files"))
    assert not (folder / "files").exists()
    return found


@pytest.mark.parametrize(
    "pair",
    [
        ("a HOUSE, is here", "Ein Haus, ist hier."),  # case and marks
        ("A house is here.", "Ein Hauss ist hier."),  # a letter more
        ("A huose is here.", "Ein Haus ist hier."),  # two exchanged
    ],
)
def test_a_pair_that_differs_by_marks_or_a_letter_goes(tmp_path: Path, pair: tuple[str, str]) -> None:
    pairs = [*COMMON[:2], ("A house is here.", "Ein Haus ist hier."), pair]
    assert _found(tmp_path, pairs) == [(3, 2)]


def test_the_misspelt_pair_goes_where_it_came_first(tmp_path: Path) -> None:
    assert (
        _found(tmp_path, [("It is a hause.", "Es ist alt."), *COMMON[:4], ("It is a house.", "Es ist alt.")])[0][0] == 0
    )


@pytest.mark.parametrize(
    "pair",
    [
        ("The house is old.", "Das Haus war alt."),  # another translation
        ("The mouse is old.", "Das Haus ist alt."),  # a letter apart, and a word of its own: it stands elsewhere too
        ("Number 12 is old.", "Nummer 12 ist alt."),
        ("The house is old!", "Das Haus ist alt."),  # a call, and no statement
        ("The house's old.", "Das Haus ist alt."),  # a contraction
    ],
)
def test_another_sentence_stays(tmp_path: Path, pair: tuple[str, str]) -> None:
    others = [
        *COMMON[1:2],
        ("My house!", "Mein Haus!"),
        ("A mouse eats.", "Eine Maus frisst."),
        ("The mouse!", "Die Maus!"),
        ("No mouse?", "Keine Maus?"),
    ]
    assert _found(tmp_path, [COMMON[0], *others, ("Number 13 is old.", "Nummer 13 ist alt."), pair]) == []


def test_long_pairs_that_are_nearly_the_same_go_and_other_numbers_stay(tmp_path: Path) -> None:
    near = (LONG_A.replace("books", "book"), LONG_B.replace("alte Bücher", "alten Bücher"))
    assert _found(tmp_path, [(LONG_A, LONG_B), near]) == [(1, 0)]
    assert _found(tmp_path, [(f"12 {LONG_A}", f"12 {LONG_B}"), (f"13 {LONG_A}", f"13 {LONG_B}")]) == []


def test_many_files_find_what_one_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [
        (f"{word}{end}", f"das {word}{end}") for word in ("house", "mouse", "tree", "sea") for end in (" .", ",", "")
    ]
    whole = _found(tmp_path, pairs)
    assert [gone for gone, _ in whole] == [row for row in range(12) if row % 3]
    monkeypatch.setattr(module, "FILE_PAIRS", 3)
    assert _found(tmp_path, pairs) == whole
