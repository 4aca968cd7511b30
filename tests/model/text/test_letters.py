"""Lower case by language: Unicode's SpecialCasing where a language has its own, the default elsewhere."""

import logging

import pytest

from dragoman.model.errors import UserError
from dragoman.model.text.letters import capitalise, case_language, fold_case, upper_case, words_of
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.model.text.words import WordRules, WordTokenizer, rules_of

LOWER = TokenizerConfig(name="words", type="words", vocabulary=100, lowercase=True)


@pytest.mark.parametrize(
    ("language", "text", "lower"),
    [
        ("tr", "İSTANBUL ILIK I\u0307", "istanbul ılık i"),
        ("tr-TR", "Işık", "ışık"),
        ("tur", "İI", "iı"),
        ("az_Latn", "IRAN İRAN", "ıran iran"),
        ("lt", "Ì Í Ĩ", "i\u0307\u0300 i\u0307\u0301 i\u0307\u0303"),
        ("lt", "Į\u0301 J\u0303 I", "į\u0307\u0301 j\u0307\u0303 i"),
        ("el", "ΟΔΟΣ ΣΑΣ", "οδος σας"),
        ("de", "STRAẞE", "straße"),
        ("en", "I İ", "i i\u0307"),
        ("", "IΣ", "iς"),
    ],
)
def test_lower_case_is_the_languages_own(language: str, text: str, lower: str) -> None:
    assert fold_case(text, language) == lower


def test_folding_twice_changes_nothing() -> None:
    for language in ("tr", "lt", "el", "de", ""):
        once = fold_case("".join(map(chr, range(0x20, 0x2000))), language)
        assert fold_case(once, language) == once


def test_only_languages_with_a_case_of_their_own_are_written_down() -> None:
    assert [case_language(code) for code in ("tr_TR", "aze", "lt", "de", "el", "nonsense!", "")] == [
        *("tr", "az", "lt", "", "", "", "")
    ]
    german = train_pair(LOWER, ["Der Hund"], ["I"], languages=("de", "en")).source
    assert b"language" not in german.serialise()
    assert rules_of(TokenizerConfig(type="words"), "tr") == rules_of(TokenizerConfig(type="words"))


def test_a_turkish_vocabulary_folds_as_its_file_says() -> None:
    pair = train_pair(
        TokenizerConfig(**{**vars(LOWER), "joint": False}), ["Işık İĞNE"], ["It Is"], languages=("tr", "en")
    )
    turkish = WordTokenizer.deserialise(pair.source.serialise(), "file")
    assert turkish.rules.language == "tr"
    assert sorted(turkish.written[6:]) == ["iğne", "ışık"]
    assert turkish.decode(turkish.encode(["IŞIK iğne"])) == ["ışık iğne"]
    assert isinstance(pair.target, WordTokenizer) and pair.target.rules == WordRules(True, segmenter="none")
    broken = pair.source.serialise().replace(b'"language":"tr"', b'"language":"xx"')
    with pytest.raises(UserError, match="language='xx': made by a newer version"):
        WordTokenizer.deserialise(broken, "file")


def test_one_vocabulary_of_two_cases_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        both = train_pair(LOWER, ["Işık"], ["Is"], languages=("tr", "en")).source
    assert isinstance(both, WordTokenizer) and not both.rules.language
    assert "tr has a lower case of its own" in caplog.text and "tokenizer.joint=false" in caplog.text
    assert train_pair(LOWER, ["I"], ["I"], languages=("tr", "az")).source.written[-1] == "ı"


@pytest.mark.parametrize(
    ("language", "text", "capitals", "first"),
    [
        ("tr", "ilik ışık", "İLİK IŞIK", "İlik ışık"),
        ("az", "il", "İL", "İl"),
        ("lt", "i\u0307\u0301", "I\u0301", "I\u0301"),
        ("el", "άνθρωπος ΐ", "ΑΝΘΡΩΠΟΣ Ϊ", "Άνθρωπος ΐ"),
        ("nl", "ijs", "IJS", "IJs"),
        ("de", "straße", "STRASSE", "Straße"),
        ("en", "ijs", "IJS", "Ijs"),
    ],
)
def test_capitals_are_those_of_the_language(language: str, text: str, capitals: str, first: str) -> None:
    assert (upper_case(text, language), capitalise(text, language)) == (capitals, first)


def test_words_of_scripts_without_blanks_are_counted() -> None:
    assert words_of("a dog 我喜欢苹果 ฉันเห็นหมา") == ["a", "dog", "我", "喜欢", "苹果", "ฉัน", "เห็น", "หมา"]
