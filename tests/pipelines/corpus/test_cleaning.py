"""Each rule by itself, with its count."""

import pytest

from dragoman.model.ranges import check_ranges
from dragoman.pipelines.corpus.clean.cleaning import Cleaned, clean, in_other_script
from dragoman.pipelines.corpus.settings import CleanConfig


def _clean(pairs: list[tuple[str, str]], config: CleanConfig | None = None, held_out: bool = False) -> Cleaned:
    return clean([a for a, _ in pairs], [b for _, b in pairs], {}, config or CleanConfig(), held_out)


LONG = "word " * 300


@pytest.mark.parametrize(
    ("rule", "source", "target"),
    [
        ("blank", "", "etwas"),
        ("blank", "something", "\u2028 \t\x00"),
        ("too_long", "x" * 1001, "y" * 1001),
        ("too_long", LONG, "kurz " * 100),
        ("length_ratio", "yes", "a very long sentence that says much more than that"),
        ("copy", "ISO 9001", " ISO\u00a09001"),
        ("blank", "", ""),  # the first rule that fails counts
        ("too_long", LONG, LONG),
    ],
)
def test_a_pair_is_dropped_by_its_rule_and_counted(rule: str, source: str, target: str) -> None:
    result = _clean([("good line", "gute Zeile"), (source, target)])
    assert result.kept.tolist() == [True, False]
    assert result.dropped == {rule: 1}


def test_limits_of_zero_are_no_limits() -> None:
    config = CleanConfig(max_chars=0, max_words=0, max_ratio=0, copies=False)
    check_ranges("corpus.clean", config)
    assert _clean([(LONG, "a"), ("b", "b"), ("x" * 5000, "y")], config).kept.all()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Go.", "Ich gehe jetzt."),  # short sides have wild ratios
        (
            "I have never seen such a beautiful sunset in my life.",
            "我一生中从未见过如此美丽的日落。",
        ),  # 53 : 16 characters
        ("สวัสดีครับ ยินดีที่ได้รู้จัก", "Hello, nice to meet you"),  # 81 : 23 bytes
    ],
)
def test_uneven_writing_systems_pass_the_length_ratio(source: str, target: str) -> None:
    assert _clean([(source, target)]).kept.all()


def test_of_held_out_lines_only_blank_ones_are_dropped() -> None:
    pairs = [("", "x"), (LONG, "y"), ("same", "same"), ("x" * 2000, "y")]
    assert _clean(pairs, held_out=True).kept.tolist() == [False, True, True, True]


def test_lines_that_could_not_be_read_count_by_their_own_reason() -> None:
    result = clean(["", "b"], ["", "c"], {0: "invalid_utf8"}, CleanConfig(), False)
    assert result.dropped == {"invalid_utf8": 1}
    assert result.kept.tolist() == [False, True]


def test_what_is_normalised_is_counted() -> None:
    result = _clean([("cafe\u0301", "tab\there"), ("it\x92s", " edge"), ("clean", "sauber")])
    assert result.changed == {"unicode": 1, "white_space": 2, "control": 1}
    assert (result.source, result.target) == (["café", "it’s", "clean"], ["tab here", "edge", "sauber"])


def test_naughty_strings_pass_or_are_counted(naughty: list[str]) -> None:
    result = clean(naughty, naughty[::-1], {}, CleanConfig(), False)
    assert int(result.kept.sum()) + sum(result.dropped.values()) == len(naughty)
    assert all("\n" not in text and text == text.strip() for text in result.source)


@pytest.mark.parametrize(
    ("rule", "source", "target"),
    [
        ("script", "This line is in English.", "эта строка на русском языке"),
        ("script", "翻译", "eine Zeile"),
        ("language", "The children are playing in the old garden.", "Les enfants jouent dans le vieux jardin."),
    ],
)
def test_a_side_in_another_script_or_language_is_dropped_where_that_is_asked(
    rule: str, source: str, target: str
) -> None:
    fine = ("The children are playing in the garden.", "Die Kinder spielen heute im Garten.")
    sides = [fine[0], source, "Ok. 17:30"], [fine[1], target, "OK. 17.30 Uhr"]  # what is short or has no letters passes
    config = CleanConfig(script=rule == "script", language=rule == "language")
    result = clean(*sides, {}, config, False, ("en", "de"))
    assert (result.kept.tolist(), result.dropped) == ([True, False, True], {rule: 1})
    assert clean(*sides, {}, config, True, ("en", "de")).kept.all(), "held-out sets stay complete"


@pytest.mark.parametrize(
    ("language", "text"), [("ja", "翻訳する"), ("ko", "번역"), ("zh", "翻译"), ("zh-Hant", "翻譯")]
)
def test_a_language_of_several_scripts_has_all_of_them(language: str, text: str) -> None:
    assert not in_other_script(text, language)
    assert in_other_script("translate", language)
