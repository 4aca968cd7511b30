"""German declension against the paradigms of a school grammar, in full."""

import pytest

from dragoman.pipelines.corpus.phrasebook.inflection import (
    CONTRACTIONS,
    Case,
    Ending,
    adjective,
    definite,
    der_word,
    ein_word,
    noun,
    relative,
)
from dragoman.pipelines.corpus.phrasebook.nouns import NOUNS
from dragoman.pipelines.corpus.phrasebook.places import PLACE_ROWS

CASES: tuple[Case, ...] = ("nom", "acc", "dat", "gen")
FORMS = "mfnp"
GERMAN = {item.english: item for item in (*NOUNS, *(place.noun for place in PLACE_ROWS))}


def test_definite_article_in_every_case_gender_and_number() -> None:
    table = [[definite(case, form) for form in FORMS] for case in CASES]
    assert table == [
        ["der", "die", "das", "die"],
        ["den", "die", "das", "die"],
        ["dem", "der", "dem", "den"],
        ["des", "der", "des", "der"],
    ]


def test_kein_in_every_case_gender_and_number() -> None:
    table = [[ein_word("kein", case, form) for form in FORMS] for case in CASES]
    assert table == [
        ["kein", "keine", "kein", "keine"],
        ["keinen", "keine", "kein", "keine"],
        ["keinem", "keiner", "keinem", "keinen"],
        ["keines", "keiner", "keines", "keiner"],
    ]


def test_dieser_in_every_case_gender_and_number() -> None:
    table = [[der_word("dies", case, form) for form in FORMS] for case in CASES]
    assert table == [
        ["dieser", "diese", "dieses", "diese"],
        ["diesen", "diese", "dieses", "diese"],
        ["diesem", "dieser", "diesem", "diesen"],
        ["dieses", "dieser", "dieses", "dieser"],
    ]


def test_relative_pronoun_in_every_case_gender_and_number() -> None:
    table = [[relative(case, form) for form in FORMS] for case in CASES]
    assert table == [
        ["der", "die", "das", "die"],
        ["den", "die", "das", "die"],
        ["dem", "der", "dem", "denen"],
        ["dessen", "deren", "dessen", "deren"],
    ]


@pytest.mark.parametrize(
    ("ending", "table"),
    [
        (
            "strong",
            [
                ["guter", "gute", "gutes", "gute"],
                ["guten", "gute", "gutes", "gute"],
                ["gutem", "guter", "gutem", "guten"],
                ["guten", "guter", "guten", "guter"],
            ],
        ),
        (
            "weak",
            [
                ["gute", "gute", "gute", "guten"],
                ["guten", "gute", "gute", "guten"],
                ["guten", "guten", "guten", "guten"],
                ["guten", "guten", "guten", "guten"],
            ],
        ),
        (
            "mixed",
            [
                ["guter", "gute", "gutes", "guten"],
                ["guten", "gute", "gutes", "guten"],
                ["guten", "guten", "guten", "guten"],
                ["guten", "guten", "guten", "guten"],
            ],
        ),
    ],
)
def test_adjective_endings_in_every_case_gender_and_number(ending: Ending, table: list[list[str]]) -> None:
    assert [[adjective("gut", ending, case, form) for form in FORMS] for case in CASES] == table


def test_adjective_in_e_does_not_double_it() -> None:
    assert adjective("müde", "strong", "nom", "m") == "müder"


def declined(english: str) -> tuple[list[str], list[str]]:
    item = GERMAN[english]

    def forms(many: bool) -> list[str]:
        return [noun(item.german, item.genitive, item.plural, item.gender, case, many) for case in CASES]

    return forms(False), forms(True)


@pytest.mark.parametrize(
    ("english", "singular", "plural"),
    [
        ("man", ["Mann", "Mann", "Mann", "Mannes"], ["Männer", "Männer", "Männern", "Männer"]),
        ("boy", ["Junge", "Jungen", "Jungen", "Jungen"], ["Jungen"] * 4),
        ("student", ["Student", "Studenten", "Studenten", "Studenten"], ["Studenten"] * 4),
        ("farmer", ["Bauer", "Bauern", "Bauern", "Bauern"], ["Bauern"] * 4),
        ("neighbor", ["Nachbar", "Nachbarn", "Nachbarn", "Nachbarn"], ["Nachbarn"] * 4),
        ("bear", ["Bär", "Bären", "Bären", "Bären"], ["Bären"] * 4),
        ("woman", ["Frau"] * 4, ["Frauen"] * 4),
        ("mother", ["Mutter"] * 4, ["Mütter", "Mütter", "Müttern", "Mütter"]),
        ("queen", ["Königin"] * 4, ["Königinnen"] * 4),
        ("child", ["Kind", "Kind", "Kind", "Kindes"], ["Kinder", "Kinder", "Kindern", "Kinder"]),
        ("girl", ["Mädchen", "Mädchen", "Mädchen", "Mädchens"], ["Mädchen"] * 4),
        ("garden", ["Garten", "Garten", "Garten", "Gartens"], ["Gärten"] * 4),
        ("car", ["Auto", "Auto", "Auto", "Autos"], ["Autos"] * 4),
        ("museum", ["Museum", "Museum", "Museum", "Museums"], ["Museen"] * 4),
        ("tree", ["Baum", "Baum", "Baum", "Baumes"], ["Bäume", "Bäume", "Bäumen", "Bäume"]),
        ("teacher", ["Lehrer", "Lehrer", "Lehrer", "Lehrers"], ["Lehrer", "Lehrer", "Lehrern", "Lehrer"]),
    ],
)
def test_nouns_decline(english: str, singular: list[str], plural: list[str]) -> None:
    assert declined(english) == (singular, plural)


def test_every_noun_of_the_tables_is_plausible_german() -> None:
    for item in GERMAN.values():
        assert item.gender in {"m", "f", "n"}
        assert item.german[0].isupper()
        if item.gender == "f":
            assert item.genitive == item.german
        else:
            assert item.genitive.endswith(("s", "n")), item
        if item.german.endswith(("ung", "erin", "schaft", "tät", "rei")):
            assert item.gender == "f", item
        if item.german.endswith("chen") and item.english not in {"cake"}:
            assert item.gender == "n", item
        assert bool(item.plural) == ("mass" not in item.features)


def test_each_english_noun_has_one_german_noun_and_the_other_way_round() -> None:
    rows = [*NOUNS, *(place.noun for place in PLACE_ROWS)]
    assert len({item.english for item in rows}) == len(rows)
    assert len({item.german for item in rows}) == len(rows)
    assert len({item.english_plural for item in rows if item.english_plural}) == sum(bool(r.plural) for r in rows)


def test_contractions_are_those_of_standard_german() -> None:
    assert set(CONTRACTIONS.values()) == {"am", "ans", "beim", "im", "ins", "vom", "zum", "zur"}
